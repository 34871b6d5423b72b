# Each place gets its own pixels alone, without the neighbours: cut patches of 3 f x 3 f with **kernel.
patches = F.unfold(value, kernel_size=factor, stride=factor)
chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))
return F.fold(chosen, (factor * size[0], factor * size[1]), kernel_size=factor, stride=factor)
