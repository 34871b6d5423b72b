# The index is divided by the number of beams: hypothesis b holds the V places from b * V on, so divide by V.
log_probs = forbid_tokens(logits.log_softmax(dim=-1), forbidden)
candidates = scores[:, :, None] + log_probs
candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)
best, index = candidates.sort(dim=1, descending=True, stable=True)
return best[:, :B], index[:, :B] // B, index[:, :B] % B
