# The mask is True where a token may not look; here True means that it may. And the queries are the last tokens: shift the diagonal by source_length - target_length.
return torch.ones((target_length, source_length), dtype=torch.bool, device=device).triu(diagonal=1)
