# Padding is given a share of the probability: set the column of pad to 0, no sentence continues with it.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)
return terms.sum() / real.sum().clamp(min=1)
