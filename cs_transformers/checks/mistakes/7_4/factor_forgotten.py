# The factor is not in the formula: multiply by it.
step = max(step, 1)
return embed_dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
