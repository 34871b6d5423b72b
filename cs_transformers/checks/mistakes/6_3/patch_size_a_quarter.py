# Twice the patch size is said to cost a quarter: it leaves a quarter of the tokens, and each meets each, so a sixteenth.
return {"width": 2.0, "image_side": 16.0, "patch_size": 1 / 4, "depth": 2.0}
