# The sum is divided by all N * T places: divide by the targets that are not padding.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)
return terms.sum() / real.numel()
