# The mask is always square: it needs one column for each of the source_length keys.
return torch.ones((target_length, target_length), dtype=torch.bool, device=device).tril()
