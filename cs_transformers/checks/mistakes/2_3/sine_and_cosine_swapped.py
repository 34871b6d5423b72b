# Sines and cosines are swapped: the table holds the sines in its even columns.
cos, sin = table[:, 0::2], table[:, 1::2]
even, odd = x[..., 0::2], x[..., 1::2]
return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
