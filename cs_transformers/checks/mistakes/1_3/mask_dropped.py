# The mask never reaches attention_weights: pass it on.
weights = attention_weights(attention_scores(query, key))
out = F.dropout(weights, dropout_p) @ value
return (out, weights) if need_weights else out
