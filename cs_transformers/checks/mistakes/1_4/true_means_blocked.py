# The mask is True where a token may not look; here True means that it may.
shape = (target_length, source_length)
return torch.ones(shape, dtype=torch.bool, device=device).triu(diagonal=source_length - target_length + 1)
