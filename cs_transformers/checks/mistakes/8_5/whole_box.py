# Offsets reach twice as far as the box: from its middle to its edge it is half the width.
if reference.shape[-1] == 2:
    return reference + offsets / cells
points = offsets.shape[-2]
return reference[..., :2] + offsets / points * reference[..., 2:]
