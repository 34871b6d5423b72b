# The old sums keep the old maximum: when a block raises it, both have to shrink by e^(old maximum - new maximum) before they are added to.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
return mixed + F.dropout(weights, dropout_p) @ value, new_top, total + weights.sum(dim=-1, keepdim=True)
