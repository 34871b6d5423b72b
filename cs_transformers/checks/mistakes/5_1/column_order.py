# The patches come column by column: they come row by row, left to right, so the axis of rows stands before that of columns.
patches = x.reshape(N, C, rows, height, columns, width)
patches = patches.permute(0, 4, 2, 1, 3, 5).reshape(N, rows * columns, C * height * width)
return self.proj(patches)
