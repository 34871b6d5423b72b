# The mask is applied after the softmax, so the remaining weights no longer sum to 1; block the scores before it.
weights = scores.softmax(dim=-1)
return weights if mask is None else weights * mask
