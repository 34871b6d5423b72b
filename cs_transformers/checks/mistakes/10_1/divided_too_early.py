# Each step divides by its sum: the division comes once, after the last block, and not here.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
shrink = (top - shift).exp()
total = shrink * total + weights.sum(dim=-1, keepdim=True)
mixed = (shrink * mixed + F.dropout(weights, dropout_p) @ value) / total.masked_fill(total == 0, 1.0)
return mixed, new_top, total
