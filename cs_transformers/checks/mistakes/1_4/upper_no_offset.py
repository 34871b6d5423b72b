# The mask is the upper triangle: tokens look at the future and not at the past; keep the lower one (tril), and shift its diagonal by source_length - target_length.
return torch.ones((target_length, source_length), dtype=torch.bool, device=device).triu()
