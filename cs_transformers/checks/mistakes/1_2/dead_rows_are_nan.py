# A row that may see nothing is NaN: softmax of nothing but -inf is 0/0; set the weights of such rows to 0.
if mask is None:
    return scores.softmax(dim=-1)
return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
