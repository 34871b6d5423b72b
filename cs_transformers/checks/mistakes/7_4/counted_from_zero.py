# One is added to every step: steps count from 1 already, only step 0 is to be counted as 1.
step = step + 1
return factor * embed_dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
