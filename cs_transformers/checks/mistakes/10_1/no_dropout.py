# dropout_p is not used: the weights go through F.dropout before they meet the values.
new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
weights = (scores - shift).exp()
shrink = (top - shift).exp()
return shrink * mixed + weights @ value, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
