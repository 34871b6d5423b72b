# The sum is divided by 9 everywhere: at the border fewer patches overlap, so the picture gets darker there; divide by the count.
patches = F.unfold(value, **kernel)
chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))
return F.fold(chosen, (factor * size[0], factor * size[1]), **kernel) / 9
