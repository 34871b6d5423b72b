# Function b gets no mask: its fault lies in how it blocks, so give it one that blocks a whole row.
query = torch.tensor([[[[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
return {"a": inputs, "b": inputs, "c": {**inputs, "dropout_p": 0.5}, "d": inputs}
