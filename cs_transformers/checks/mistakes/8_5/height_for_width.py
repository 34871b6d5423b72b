# Width and height have changed places: x is measured by the number of columns, y by that of rows.
if reference.shape[-1] == 2:
    return reference + offsets / cells.flip(-1)
points = offsets.shape[-2]
return reference[..., :2] + offsets / points * reference[..., 2:] / 2
