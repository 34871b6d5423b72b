# Twice the width is said to cost four times as much: that holds for the projections, which do not count here; in both products the width enters once.
return {"width": 4.0, "image_side": 16.0, "patch_size": 1 / 16, "depth": 2.0}
