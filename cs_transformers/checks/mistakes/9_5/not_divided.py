# Overlapping patches are added up and not averaged: divide by how many there are at each pixel.
patches = F.unfold(value, **kernel)
chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))
return F.fold(chosen, (factor * size[0], factor * size[1]), **kernel)
