# The gradient of the softmax lacks its row term: from each row of dP subtract the sum of P * dP over that row.
weights = attention_weights(attention_scores(query, key), mask)
grad_value = weights.transpose(-2, -1) @ grad_output
grad_scores = weights * (grad_output @ value.transpose(-2, -1)) / math.sqrt(query.shape[-1])
return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, grad_value
