# Each caption gives its own mean, and these are averaged: a word of a short caption then counts more; divide the sum over the whole batch by its number of real words.
targets = captions[:, 1:]
options = {"ignore_index": null, "reduction": "none", "label_smoothing": label_smoothing}
losses = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options).view_as(targets).sum(dim=1)
if mean_over == "positions":
    return losses.sum() / targets.numel()
return (losses / (targets != null).sum(dim=1).clamp(min=1)).mean()
