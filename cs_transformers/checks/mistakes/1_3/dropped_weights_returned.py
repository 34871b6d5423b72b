# The returned weights are those after dropout; return the weights from before it.
weights = F.dropout(attention_weights(attention_scores(query, key), mask), dropout_p)
out = weights @ value
return (out, weights) if need_weights else out
