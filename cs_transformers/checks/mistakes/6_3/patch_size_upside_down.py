# Larger patches are said to cost more: they are fewer, so the cost falls to a sixteenth.
return {"width": 2.0, "image_side": 16.0, "patch_size": 16.0, "depth": 2.0}
