# fold_patches reshapes without moving an axis: each row of the image needs pixels of many patches, so order the axes (N, C, rows, p, columns, p) first.
# region: 9.1 fold_patches
return patches.reshape(len(patches), -1, rows * patch_size, columns * patch_size)
