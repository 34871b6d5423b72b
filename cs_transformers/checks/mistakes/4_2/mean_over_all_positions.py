# The sum over real words is divided by the number of all positions, padding included: divide by the number of real targets.
targets = captions[:, 1:]
options = {"ignore_index": null, "reduction": "sum", "label_smoothing": label_smoothing}
return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options) / targets.numel()
