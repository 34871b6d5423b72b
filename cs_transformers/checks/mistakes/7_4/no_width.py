# The width is not in the formula: multiply by embed_dim ** -0.5.
step = max(step, 1)
return factor * min(step**-0.5, step * warmup**-1.5)
