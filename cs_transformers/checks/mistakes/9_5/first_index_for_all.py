# Every image of the batch is copied with the places of the first one: give gather the index of each image.
counted = torch.cat((value, torch.ones_like(value[:, :1])), dim=1)
chosen = F.unfold(counted, **kernel)[:, :, index[0]]
total = F.fold(chosen, (factor * size[0], factor * size[1]), **kernel)
return total[:, :-1] / total[:, -1:]
