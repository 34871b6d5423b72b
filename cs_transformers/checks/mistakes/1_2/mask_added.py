# The mask is added to the scores: adding True adds 1 and blocks nothing; fill the blocked scores with -inf instead.
if mask is None:
    return scores.softmax(dim=-1)
dead = ~mask.any(dim=-1, keepdim=True)
return (scores + mask).softmax(dim=-1).masked_fill(dead, 0.0)
