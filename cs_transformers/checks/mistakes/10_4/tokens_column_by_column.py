# window_partition goes through the tokens of a window column by column: they come row by row.
# region: 10.4 window_partition
parts = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))
return parts.permute(0, 1, 3, 4, 2, 5).flatten(3, 4).flatten(1, 2)
