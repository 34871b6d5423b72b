# The mask is one to add to the scores, of 0 and -inf; here a mask is of dtype bool, True where a token may look.
return torch.full((target_length, source_length), -torch.inf, device=device).triu(diagonal=1)
