# The error is the mean of absolute differences: square them.
error = (restored.clamp(0, 1) - target).abs().mean(dim=(1, 2, 3))
return 10 * torch.log10(1 / error)
