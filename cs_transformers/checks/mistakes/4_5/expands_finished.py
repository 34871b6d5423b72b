# Finished hypotheses are extended: they have left the beam, so set their candidates to -inf.
candidates = scores[:, :, None] + forbid_tokens(logits.log_softmax(dim=-1), forbidden)
best, index = candidates.flatten(start_dim=1).sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // V, index[:, :B] % V
