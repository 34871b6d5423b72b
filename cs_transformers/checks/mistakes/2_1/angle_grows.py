# The angles are multiplied by 10000^(2k/D): divide by it, so that later columns turn more slowly.
position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)
exponent = torch.arange(0, embed_dim, 2, dtype=torch.float64, device="cpu") / embed_dim
angle = position * 10000.0**exponent
return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
