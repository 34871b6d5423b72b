# The rate grows with the width: it is multiplied by embed_dim ** -0.5, wide models learn in smaller steps.
step = max(step, 1)
return factor * embed_dim**0.5 * min(step**-0.5, step * warmup**-1.5)
