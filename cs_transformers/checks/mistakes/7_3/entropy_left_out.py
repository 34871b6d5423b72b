# The term wanted log wanted is missing: without it the loss does not fall to 0 where the model says what is wanted.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, -wanted * log_probs, 0.0)
return terms.sum() / real.sum().clamp(min=1)
