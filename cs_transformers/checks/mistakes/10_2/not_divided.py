# The division is missing: the weights of a query do not sum to 1 by themselves; divide by Q sum(K).
# region: 10.2 linear_attention
return query @ (key.transpose(-2, -1) @ value)
