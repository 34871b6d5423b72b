# All sines stand in the first half of the columns and all cosines in the second: they alternate.
position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)
exponent = torch.arange(0, embed_dim, 2, dtype=torch.float64, device="cpu") / embed_dim
angle = position / 10000.0**exponent
return torch.cat((angle.sin(), angle.cos()), dim=-1)
