# Words are forbidden before the softmax, which makes the others more probable: forbid them in the log-probabilities.
log_probs = forbid_tokens(logits, forbidden).log_softmax(dim=-1)
candidates = scores[:, :, None] + log_probs
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // V, index[:, :B] % V
