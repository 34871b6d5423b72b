# Inside a patch the channels come last: a patch is flattened channel first, (C, height, width).
patches = x.reshape(N, C, rows, height, columns, width)
patches = patches.permute(0, 2, 4, 3, 5, 1).reshape(N, rows * columns, C * height * width)
return self.proj(patches)
