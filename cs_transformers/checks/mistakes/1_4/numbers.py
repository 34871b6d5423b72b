# The mask holds the numbers 0 and 1; a mask is of dtype bool, True where a token may look.
return torch.ones((target_length, source_length), device=device).tril(diagonal=source_length - target_length)
