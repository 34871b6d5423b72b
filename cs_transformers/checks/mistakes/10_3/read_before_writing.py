# The token reads before its own key and value are added: it must see itself.
context, total = state
weight = (query * total).sum(dim=-1, keepdim=True)
out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)
return out, (context + key.unsqueeze(-1) * value.unsqueeze(-2), total + key)
