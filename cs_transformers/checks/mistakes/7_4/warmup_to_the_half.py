# The rise is multiplied by warmup ** -0.5: with warmup ** -1.5 both terms meet at step = warmup.
step = max(step, 1)
return factor * embed_dim**-0.5 * min(step**-0.5, step * warmup**-0.5)
