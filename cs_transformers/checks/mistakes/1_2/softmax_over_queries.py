# The softmax runs over the queries (dim=-2); every query spreads its weight over the keys, so it runs over dim=-1.
if mask is None:
    return scores.softmax(dim=-2)
dead = ~mask.any(dim=-1, keepdim=True)
weights = scores.masked_fill(~mask & ~dead, -torch.inf).softmax(dim=-2)
return weights.masked_fill(dead, 0.0)
