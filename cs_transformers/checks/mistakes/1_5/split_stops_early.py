# split_heads stops at (N, T, H, K): the axes of tokens and heads still have to change places.
# region: 1.5 split_heads
return x.unflatten(-1, (num_heads, -1))
