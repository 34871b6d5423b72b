# Offsets around a box are not divided by the number of points P: an offset of P reaches the edge.
if reference.shape[-1] == 2:
    return reference + offsets / cells
points = offsets.shape[-2]
return reference[..., :2] + offsets * reference[..., 2:] / 2
