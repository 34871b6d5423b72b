# Raw logits are taken for probabilities: apply softmax over the classes first.
likely = _focal_gain(logits) if focal else logits
distance = torch.cdist(boxes, true_boxes, p=1)
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))
return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
