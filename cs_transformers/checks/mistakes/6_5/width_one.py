# The input for function a has the head width 1, whose square root is 1: the missing scale shows only at greater widths.
query = torch.tensor([[[[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
narrow = {"query": query[..., :1], "key": query[..., :1], "value": torch.eye(2, 4)[None, None]}
return {"a": narrow, "b": {**inputs, "mask": torch.tensor([[1, 1], [0, 0]])}, "c": {**inputs, "dropout_p": 0.5}, "d": inputs}
