# The mask is used the wrong way round: True means that the query may look there; and fill blocked scores with -inf, not with a large negative number such as -1e9.
if mask is None:
    return scores.softmax(dim=-1)
return scores.masked_fill(mask, -1e9).softmax(dim=-1)
