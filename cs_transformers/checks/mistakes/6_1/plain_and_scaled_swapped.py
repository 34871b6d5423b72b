# Plain and scaled numbers are swapped: `variance` and `entropy` belong to the scores before the division.
q, k = split_heads(query, num_heads), split_heads(key, num_heads)
scaled = q @ k.transpose(-2, -1)
scores = scaled / math.sqrt(q.shape[-1])
plain = {"variance": scores.var(), "entropy": softmax_entropy(scores)}
return {**plain, "scaled_variance": scaled.var(), "scaled_entropy": softmax_entropy(scaled)}
