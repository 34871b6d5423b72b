# Dropout acts on the scores before the softmax; drop weights, after it.
scores = F.dropout(attention_scores(query, key), dropout_p)
weights = attention_weights(attention_scores(query, key), mask)
out = attention_weights(scores, mask) @ value
return (out, weights) if need_weights else out
