# The new maximum is that of the block alone: it must never fall below the old one, take the larger of both.
new_top = scores.amax(dim=-1, keepdim=True)
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
shrink = (top - shift).exp()
mixed = shrink * mixed + F.dropout(weights, dropout_p) @ value
return mixed, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
