# `focal` is not looked at: where it is true, `_focal_gain(logits)` takes the place of the softmax.
likely = logits.softmax(dim=-1)
distance = torch.cdist(boxes, true_boxes, p=1)
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))
return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
