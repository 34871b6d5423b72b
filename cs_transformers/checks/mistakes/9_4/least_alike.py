# hard_index chooses what resembles least: take the largest score.
# region: 9.4 hard_index
strength, index = scores.min(dim=2)
return strength, index
