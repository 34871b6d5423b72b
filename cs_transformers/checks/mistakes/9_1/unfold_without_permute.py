# unfold_patches reshapes without moving an axis, so a "patch" is a strip of consecutive pixels: bring rows and columns to the front first.
# region: 9.1 unfold_patches
N, C, H, W = x.shape
return x.reshape(N, (H // patch_size) * (W // patch_size), C * patch_size**2)
