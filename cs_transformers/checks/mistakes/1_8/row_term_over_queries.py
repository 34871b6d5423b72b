# The row term is summed over the queries (dim=-2): a row of the softmax runs over the keys (dim=-1).
weights = attention_weights(attention_scores(query, key), mask)
grad_value = weights.transpose(-2, -1) @ grad_output
grad_weights = grad_output @ value.transpose(-2, -1)
row_term = (weights * grad_weights).sum(dim=-2, keepdim=True)
grad_scores = weights * (grad_weights - row_term) / math.sqrt(query.shape[-1])
return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, grad_value
