# Pixels outside [0, 1] count as they are: cut the restored image with clamp(0, 1) first.
error = (restored - target).square().mean(dim=(1, 2, 3))
return 10 * torch.log10(1 / error)
