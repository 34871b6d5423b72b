# Function c gets dropout_p = 0 and cannot drop anything: its fault shows in eval mode with a probability above 0.
query = torch.tensor([[[[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
return {"a": inputs, "b": {**inputs, "mask": torch.tensor([[1, 1], [0, 0]])}, "c": inputs, "d": inputs}
