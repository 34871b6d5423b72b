# Centre and size are passed as if they were corners: convert both with cxcywh_to_xyxy before generalized_box_iou.
likely = _focal_gain(logits) if focal else logits.softmax(dim=-1)
distance = torch.cdist(boxes, true_boxes, p=1)
overlap = generalized_box_iou(boxes, true_boxes)
return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
