# Every column has an exponent of its own: sine and cosine of one pair share the exponent 2k/D.
position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)
exponent = torch.arange(embed_dim, dtype=torch.float64, device="cpu") / embed_dim
table = position / 10000.0**exponent
table[:, 0::2], table[:, 1::2] = table[:, 0::2].sin(), table[:, 1::2].cos()
return table
