# Probabilities are added to the scores: the scores are sums of log-probabilities, so use log_softmax.
probs = forbid_tokens(logits.softmax(dim=-1), forbidden)
candidates = scores[:, :, None] + probs
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // V, index[:, :B] % V
