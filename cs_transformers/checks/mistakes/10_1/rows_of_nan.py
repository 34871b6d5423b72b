# A query that has seen nothing turns into NaN: its maximum is -inf, and -inf - (-inf) is NaN; subtract 0 there.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
weights = (scores - new_top).exp()
shrink = (top - new_top).exp()
mixed = shrink * mixed + F.dropout(weights, dropout_p) @ value
return mixed, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
