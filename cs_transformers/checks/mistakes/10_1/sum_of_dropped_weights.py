# The sum counts only the weights that dropout left: dropout acts on their way to the values, the sum counts all of them.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = F.dropout((scores - shift).exp(), dropout_p)
shrink = (top - shift).exp()
return shrink * mixed + weights @ value, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
