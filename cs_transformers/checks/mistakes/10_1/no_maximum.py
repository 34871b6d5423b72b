# Nothing is subtracted: e^score overflows for large scores; subtract the largest score so far.
weights = scores.exp()
new_top = torch.zeros_like(top)
old = top.masked_fill(top == -torch.inf, 0.0).exp()
mixed = old * mixed + F.dropout(weights, dropout_p) @ value
return mixed, new_top, old * total + weights.sum(dim=-1, keepdim=True)
