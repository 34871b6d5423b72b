# The mask is used the wrong way round: True means that the query may look there.
if mask is None:
    return scores.softmax(dim=-1)
mask = ~mask
dead = ~mask.any(dim=-1, keepdim=True)
weights = scores.masked_fill(~mask & ~dead, -torch.inf).softmax(dim=-1)
return weights.masked_fill(dead, 0.0)
