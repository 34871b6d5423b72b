# Sine and cosine are swapped: sine stands in the even columns (0, 2, ...), cosine in the odd ones.
position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)
exponent = torch.arange(0, embed_dim, 2, dtype=torch.float64, device="cpu") / embed_dim
angle = position / 10000.0**exponent
return torch.stack((angle.cos(), angle.sin()), dim=-1).flatten(1)
