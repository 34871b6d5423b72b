# The axes are cut the wrong way round: each side is (number of patches, size of a patch), in this order.
patches = x.reshape(N, C, height, rows, width, columns)
patches = patches.permute(0, 3, 5, 1, 2, 4).reshape(N, rows * columns, C * height * width)
return self.proj(patches)
