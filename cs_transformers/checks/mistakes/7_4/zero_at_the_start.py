# Step 0 is not counted as 1: 0 ** -0.5 is a division by zero.
return factor * embed_dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
