# // and % are swapped: in an index over B * V, index // V is the hypothesis and index % V the word.
log_probs = forbid_tokens(logits.log_softmax(dim=-1), forbidden)
candidates = scores[:, :, None] + log_probs
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] % V, index[:, :B] // V
