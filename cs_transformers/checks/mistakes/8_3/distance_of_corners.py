# The distance is that of the corners: take it between centre and size, as the boxes come.
likely = _focal_gain(logits) if focal else logits.softmax(dim=-1)
distance = torch.cdist(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), p=1)
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))
return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
