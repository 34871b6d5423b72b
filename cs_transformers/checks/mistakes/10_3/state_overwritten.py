# The state holds the new token alone: add to what was there.
context, total = key.unsqueeze(-1) * value.unsqueeze(-2), key
weight = (query * total).sum(dim=-1, keepdim=True)
out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)
return out, (context, total)
