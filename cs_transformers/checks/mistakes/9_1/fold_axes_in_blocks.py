# fold_patches puts both axes of the grid before both of the patch: height is (rows, p) and width is (columns, p), so they alternate.
# region: 9.1 fold_patches
cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
return cells.permute(0, 3, 1, 2, 4, 5).reshape(len(patches), -1, rows * patch_size, columns * patch_size)
