# Blocked scores are set to a large negative number such as -1e9: a row that sees nothing then spreads its weight evenly over keys it must not see; use -inf and set such rows to 0.
if mask is None:
    return scores.softmax(dim=-1)
return scores.masked_fill(~mask, -1e9).softmax(dim=-1)
