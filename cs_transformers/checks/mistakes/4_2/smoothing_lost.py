# label_smoothing is ignored: pass it on to F.cross_entropy.
targets = captions[:, 1:]
total = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=null, reduction="sum")
counted = targets != null if mean_over == "words" else torch.ones_like(targets)
return total / counted.sum().clamp(min=1)
