# The division is missing: divide what is read by q z, the sum of the weights.
context = context + key.unsqueeze(-1) * value.unsqueeze(-2)
total = total + key
return (query.unsqueeze(-2) @ context).squeeze(-2), (context, total)
