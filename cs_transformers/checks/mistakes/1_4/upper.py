# The mask is the upper triangle: tokens look at the future and not at the past; keep the lower one (tril).
shape = (target_length, source_length)
return torch.ones(shape, dtype=torch.bool, device=device).triu(diagonal=source_length - target_length)
