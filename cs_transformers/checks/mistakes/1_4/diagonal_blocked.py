# The diagonal is blocked, so no token sees itself: the triangle must include it.
shape = (target_length, source_length)
return torch.ones(shape, dtype=torch.bool, device=device).tril(diagonal=source_length - target_length - 1)
