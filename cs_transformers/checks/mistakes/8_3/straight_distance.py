# The distance is the straight one: the L1 distance is the sum of the absolute differences, torch.cdist with p=1.
likely = _focal_gain(logits) if focal else logits.softmax(dim=-1)
distance = torch.cdist(boxes, true_boxes)
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))
return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
