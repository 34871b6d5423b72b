# unfold_patches flattens a patch with the channels last: the order is (C, p, p), channels first.
# region: 9.1 unfold_patches
N, C, H, W = x.shape
cells = x.reshape(N, C, H // patch_size, patch_size, W // patch_size, patch_size)
return cells.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
