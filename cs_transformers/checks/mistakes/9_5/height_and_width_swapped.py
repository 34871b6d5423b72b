# The patches are put down in an image of w x h places: size is (h, w), height first.
counted = torch.cat((value, torch.ones_like(value[:, :1])), dim=1)
patches = F.unfold(counted, **kernel)
chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))
total = F.fold(chosen, (factor * size[1], factor * size[0]), **kernel)
return total[:, :-1] / total[:, -1:]
