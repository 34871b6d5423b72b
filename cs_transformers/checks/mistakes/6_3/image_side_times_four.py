# Twice the side of the image is said to cost four times as much: it gives four times the tokens, and each meets each, so sixteen times.
return {"width": 2.0, "image_side": 4.0, "patch_size": 1 / 16, "depth": 2.0}
