# box_loss squares the differences: L1 takes their absolute values.
# region: 8.4 box_loss
distance = ((boxes - true_boxes) ** 2).sum()
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), paired=True)
return distance / num_boxes, (1 - overlap).sum() / num_boxes
