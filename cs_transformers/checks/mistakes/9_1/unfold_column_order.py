# unfold_patches takes the patches column by column: they come row by row, left to right.
# region: 9.1 unfold_patches
N, C, H, W = x.shape
cells = x.reshape(N, C, H // patch_size, patch_size, W // patch_size, patch_size)
return cells.permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)
