# The logits are used as if they were log-probabilities: take log_softmax over the words first.
log_probs = logits
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)
return terms.sum() / real.sum().clamp(min=1)
