# The scores are divided by the head width itself; divide by its square root.
return query @ key.transpose(-2, -1) / query.shape[-1]
