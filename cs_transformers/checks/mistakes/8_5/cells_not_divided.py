# Offsets around a point count cells: divide them by (w, h) to get fractions.
if reference.shape[-1] == 2:
    return reference + offsets
points = offsets.shape[-2]
return reference[..., :2] + offsets / points * reference[..., 2:] / 2
