# The loss counts <NULL> targets: leave them out with ignore_index.
targets = captions[:, 1:]
options = {"reduction": "sum", "label_smoothing": label_smoothing}
return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options) / targets.numel()
