# The share is divided by V - 1: padding gets nothing either, so V - 2 words share it.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 1))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)
return terms.sum() / real.sum().clamp(min=1)
