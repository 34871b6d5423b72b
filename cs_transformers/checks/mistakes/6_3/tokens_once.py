# The number of tokens enters once: every token meets every token, so it enters squared, for the side of the image and for the patch size.
return {"width": 2.0, "image_side": 4.0, "patch_size": 1 / 4, "depth": 2.0}
