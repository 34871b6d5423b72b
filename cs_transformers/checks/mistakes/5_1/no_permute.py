# The image is cut without moving any axis, so a "patch" is a strip of consecutive pixels: cut height and width in two first, then permute, then flatten.
return self.proj(x.reshape(N, rows * columns, C * height * width))
