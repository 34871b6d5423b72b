# class_loss takes class 0 for "no object": that is the last column, index K.
# region: 8.4 class_loss
no_object = logits.shape[-1] - 1
wanted = torch.full(logits.shape[:2], 0, dtype=torch.int64, device=logits.device)
for row, (query, entry), classes in zip(wanted, matches, labels, strict=True):
    row[query] = classes[entry].to(row.device)
weight = logits.new_ones(no_object + 1)
weight[0] = no_object_weight
return F.cross_entropy(logits.transpose(1, 2), wanted, weight)
