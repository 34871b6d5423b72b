# The factor 2 pi is missing: the last row and column count 2 pi, not 1.
exponent = torch.arange(0, embed_dim // 2, 2, dtype=cells.dtype, device=cells.device) / (embed_dim // 2)
halves = []
for axis in (1, 2):
    count = cells.cumsum(axis)
    last = count.narrow(axis, -1, 1)
    angle = (count + shift) / (last + 1e-6)
    angles = angle.unsqueeze(-1) / temperature**exponent
    halves.append(torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(3))
return torch.cat(halves, dim=-1)
