# The mask for function b leaves every query a key to look at: there -1e9 works like -inf; block a whole row.
query = torch.tensor([[[[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
mask = torch.tensor([[1, 0], [1, 1]])
return {"a": inputs, "b": {**inputs, "mask": mask}, "c": {**inputs, "dropout_p": 0.5}, "d": inputs}
