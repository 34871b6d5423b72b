# box_loss divides by the number of pairs it is given: divide by num_boxes, that of the whole batch.
# region: 8.4 box_loss
distance = (boxes - true_boxes).abs().sum()
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), paired=True)
return distance / max(len(boxes), 1), (1 - overlap).sum() / max(len(boxes), 1)
