# class_loss hands the labels out in the order of the objects: query i of a match answers for object `entry[i]`.
# region: 8.4 class_loss
no_object = logits.shape[-1] - 1
wanted = torch.full(logits.shape[:2], no_object, dtype=torch.int64, device=logits.device)
for row, (query, entry), classes in zip(wanted, matches, labels, strict=True):
    row[query] = classes[: len(query)].to(row.device)
weight = logits.new_ones(no_object + 1)
weight[no_object] = no_object_weight
return F.cross_entropy(logits.transpose(1, 2), wanted, weight)
