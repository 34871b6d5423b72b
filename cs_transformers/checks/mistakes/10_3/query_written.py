# The query is written into the memory: the key says where the value is kept, the query only reads.
context = context + query.unsqueeze(-1) * value.unsqueeze(-2)
total = total + query
weight = (query * total).sum(dim=-1, keepdim=True)
out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)
return out, (context, total)
