# What a patch takes from beyond the reference's border counts as black pixels: count with a channel of ones that goes the same way as the value.
patches = F.unfold(value, **kernel)
chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))
area = (factor * size[0], factor * size[1])
count = F.fold(torch.ones_like(chosen), area, **kernel)
return F.fold(chosen, area, **kernel) / count
