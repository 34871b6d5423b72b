# The scores are divided by the head width itself: divide by its square root, so that the variance stays near 1.
q, k = split_heads(query, num_heads), split_heads(key, num_heads)
scores = q @ k.transpose(-2, -1)
scaled = scores / q.shape[-1]
plain = {"variance": scores.var(), "entropy": softmax_entropy(scores)}
return {**plain, "scaled_variance": scaled.var(), "scaled_entropy": softmax_entropy(scaled)}
