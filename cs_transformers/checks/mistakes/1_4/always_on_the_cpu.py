# The mask is always made on the CPU: pass device=device to the function that makes it.
return torch.ones((target_length, source_length), dtype=torch.bool).tril(diagonal=source_length - target_length)
