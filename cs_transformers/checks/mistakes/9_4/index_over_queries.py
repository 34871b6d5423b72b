# hard_index chooses along the image's places: for each of them choose one of the reference's, the last axis.
# region: 9.4 hard_index
strength, index = scores.max(dim=1)
return strength, index
