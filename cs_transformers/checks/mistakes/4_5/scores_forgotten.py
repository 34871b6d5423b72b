# The scores of the hypotheses are not added: a hypothesis is worth the sum of all its words.
candidates = forbid_tokens(logits.log_softmax(dim=-1), forbidden)
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // V, index[:, :B] % V
