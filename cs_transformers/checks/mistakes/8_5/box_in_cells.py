# Offsets around a box count cells: there they count parts of the box, whatever the level.
if reference.shape[-1] == 2:
    return reference + offsets / cells
points = offsets.shape[-2]
return reference[..., :2] + offsets / cells
