# This is torch's smoothing: it spreads the share over all words, the right one and padding included, and leaves log wanted out.
return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad, label_smoothing=smoothing, reduction="sum") / (targets != pad).sum().clamp(min=1)
