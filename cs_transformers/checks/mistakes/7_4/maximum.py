# The larger of the two terms is taken: the rate starts at its highest and then grows without end; take the smaller one.
step = max(step, 1)
return factor * embed_dim**-0.5 * max(step**-0.5, step * warmup**-1.5)
