# Inside a patch width comes before height: a patch is flattened as (C, height, width).
patches = x.reshape(N, C, rows, height, columns, width)
patches = patches.permute(0, 2, 4, 1, 5, 3).reshape(N, rows * columns, C * height * width)
return self.proj(patches)
