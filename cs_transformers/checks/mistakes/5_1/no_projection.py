# The patches are not projected: send them through self.proj.
patches = x.reshape(N, C, rows, height, columns, width)
return patches.permute(0, 2, 4, 1, 3, 5).reshape(N, rows * columns, C * height * width)
