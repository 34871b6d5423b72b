# The sum of the values is left behind: it has to shrink by the same factor as the sum of the weights.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
shrink = (top - shift).exp()
mixed = mixed + F.dropout(weights, dropout_p) @ value
return mixed, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
