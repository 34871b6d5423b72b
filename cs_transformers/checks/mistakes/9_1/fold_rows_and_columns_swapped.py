# fold_patches puts the patches down column by column: they come row by row.
# region: 9.1 fold_patches
cells = patches.reshape(len(patches), columns, rows, -1, patch_size, patch_size)
return cells.permute(0, 3, 2, 4, 1, 5).flatten(4).flatten(2, 3)
