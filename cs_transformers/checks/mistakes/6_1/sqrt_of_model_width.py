# The scores are divided by the square root of the model width D: a head has the width D/H, and its square root is the scale.
q, k = split_heads(query, num_heads), split_heads(key, num_heads)
scores = q @ k.transpose(-2, -1)
scaled = scores / math.sqrt(query.shape[-1])
plain = {"variance": scores.var(), "entropy": softmax_entropy(scores)}
return {**plain, "scaled_variance": scaled.var(), "scaled_entropy": softmax_entropy(scaled)}
