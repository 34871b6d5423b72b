# The scores are divided by the square root of embed_dim (all heads together); divide by that of one head's width.
embed_dim = query.shape[-1] * query.shape[-3]
return query @ key.transpose(-2, -1) / math.sqrt(embed_dim)
