# Nothing is dropped: pass the weights through F.dropout with dropout_p before they meet the values.
weights = attention_weights(attention_scores(query, key), mask)
out = weights @ value
return (out, weights) if need_weights else out
