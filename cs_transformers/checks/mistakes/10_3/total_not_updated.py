# z stays as it was: the key has to be added to it too.
context = context + key.unsqueeze(-1) * value.unsqueeze(-2)
weight = (query * total).sum(dim=-1, keepdim=True)
out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)
return out, (context, total)
