# The past is cut off from the gradients: no detach, a later loss must reach the earlier tokens.
context = context.detach() + key.unsqueeze(-1) * value.unsqueeze(-2)
total = total.detach() + key
weight = (query * total).sum(dim=-1, keepdim=True)
out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)
return out, (context, total)
