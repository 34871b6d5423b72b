# The targets are not shifted: the scores after word t are compared with word t itself; compare them with the next one, captions[:, 1:].
targets = captions[:, :-1]
options = {"ignore_index": null, "reduction": "sum", "label_smoothing": label_smoothing}
total = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options)
counted = targets != null if mean_over == "words" else torch.ones_like(targets)
return total / counted.sum().clamp(min=1)
