# split_heads cuts the numbers straight into the shape (N, H, T, K) and so mixes tokens: cut the last axis into (N, T, H, K), then exchange the axes of tokens and heads.
# region: 1.5 split_heads
return x.reshape(x.shape[0], num_heads, x.shape[1], -1)
