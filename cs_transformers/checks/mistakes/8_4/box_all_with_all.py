# box_loss compares every box with every object: with paired=True each is compared with its own.
# region: 8.4 box_loss
distance = (boxes - true_boxes).abs().sum()
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))
return distance / num_boxes, (1 - overlap).sum() / num_boxes
