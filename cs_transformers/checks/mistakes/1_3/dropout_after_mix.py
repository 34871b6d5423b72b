# Dropout acts on the mixed values; drop weights, before they meet the values.
weights = attention_weights(attention_scores(query, key), mask)
out = F.dropout(weights @ value, dropout_p)
return (out, weights) if need_weights else out
