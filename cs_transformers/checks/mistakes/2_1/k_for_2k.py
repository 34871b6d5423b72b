# The exponent is k/D: the pair of columns 2k and 2k+1 has the exponent 2k/D.
position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)
exponent = torch.arange(embed_dim // 2, dtype=torch.float64, device="cpu") / embed_dim
angle = position / 10000.0**exponent
return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
