# These are standard deviations: the variance is their square, Tensor.var.
q, k = split_heads(query, num_heads), split_heads(key, num_heads)
scores = q @ k.transpose(-2, -1)
scaled = scores / math.sqrt(q.shape[-1])
plain = {"variance": scores.std(), "entropy": softmax_entropy(scores)}
return {**plain, "scaled_variance": scaled.std(), "scaled_entropy": softmax_entropy(scaled)}
