# window_partition goes through the windows column by column: they come row by row.
# region: 10.4 window_partition
parts = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))
return parts.permute(0, 3, 1, 2, 4, 5).flatten(3, 4).flatten(1, 2)
