# The loss is a sum: divide it by the number of targets.
targets = captions[:, 1:]
options = {"ignore_index": null, "reduction": "sum", "label_smoothing": label_smoothing}
return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options)
