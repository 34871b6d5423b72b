# The mean of the keys stands where their sum belongs: the result is S times too large.
# region: 10.2 linear_attention
context = key.transpose(-2, -1) @ value
total = query @ key.mean(dim=-2).unsqueeze(-1)
return (query @ context) / total.masked_fill(total == 0, 1.0)
