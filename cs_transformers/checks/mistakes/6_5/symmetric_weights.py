# The weights for function d are symmetric, so P and its transpose mix alike: make one query keener than the other.
query = torch.tensor([[[[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])
inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
even = {"query": torch.eye(2, 4)[None, None], "key": torch.eye(2, 4)[None, None], "value": torch.eye(2, 4)[None, None]}
return {"a": inputs, "b": {**inputs, "mask": torch.tensor([[1, 1], [0, 0]])}, "c": {**inputs, "dropout_p": 0.5}, "d": even}
