# Raw logits are added to the scores: normalise them first with log_softmax, or hypotheses cannot be compared.
candidates = scores[:, :, None] + forbid_tokens(logits, forbidden)
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // V, index[:, :B] % V
