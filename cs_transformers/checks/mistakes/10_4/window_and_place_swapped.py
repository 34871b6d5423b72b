# window_partition gathers every n-th token: the first axis of a cut counts windows and the second the places inside, not the other way round.
# region: 10.4 window_partition
parts = x.unflatten(2, (window, -1)).unflatten(1, (window, -1))
return parts.permute(0, 2, 4, 1, 3, 5).flatten(3, 4).flatten(1, 2)
