# join_heads flattens (N, H, T, K) as it is and so mixes tokens: exchange the axes of heads and tokens first.
# region: 1.5 join_heads
return x.reshape(x.shape[0], x.shape[2], -1)
