# fold_patches reads a patch as if its channels came last: it is (C, p, p), channels first.
# region: 9.1 fold_patches
cells = patches.reshape(len(patches), rows, columns, patch_size, patch_size, -1)
return cells.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
