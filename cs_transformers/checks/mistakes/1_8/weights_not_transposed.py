# dV uses the weights as they are: a value collects from all queries, so P must be transposed.
weights = attention_weights(attention_scores(query, key), mask)
grad_value = weights @ grad_output
grad_weights = grad_output @ value.transpose(-2, -1)
row_term = (weights * grad_weights).sum(dim=-1, keepdim=True)
grad_scores = weights * (grad_weights - row_term) / math.sqrt(query.shape[-1])
return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, grad_value
