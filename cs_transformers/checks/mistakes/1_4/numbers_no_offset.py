# The mask holds the numbers 0 and 1, where it must be of dtype bool; and the queries are the last tokens: shift the diagonal by source_length - target_length.
return torch.ones((target_length, source_length), device=device).tril()
