# class_loss asks the matched queries alone: the others must say "no object", or nothing keeps duplicates away.
# region: 8.4 class_loss
no_object = logits.shape[-1] - 1
wanted = torch.full(logits.shape[:2], -100, dtype=torch.int64, device=logits.device)
for row, (query, entry), classes in zip(wanted, matches, labels, strict=True):
    row[query] = classes[entry].to(row.device)
weight = logits.new_ones(no_object + 1)
weight[no_object] = no_object_weight
return F.cross_entropy(logits.transpose(1, 2), wanted, weight)
