# dK uses dS as it is: a key collects from all queries, so dS must be transposed.
weights = attention_weights(attention_scores(query, key), mask)
grad_value = weights.transpose(-2, -1) @ grad_output
grad_weights = grad_output @ value.transpose(-2, -1)
row_term = (weights * grad_weights).sum(dim=-1, keepdim=True)
grad_scores = weights * (grad_weights - row_term) / math.sqrt(query.shape[-1])
return grad_scores @ key, grad_scores @ query, grad_value
