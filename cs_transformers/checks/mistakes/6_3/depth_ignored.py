# The depth is said to change nothing: every layer costs the same, so twice the layers cost twice as much.
return {"width": 2.0, "image_side": 16.0, "patch_size": 1 / 16, "depth": 1.0}
