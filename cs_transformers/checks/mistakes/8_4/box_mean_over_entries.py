# box_loss takes the mean over all entries: add the absolute differences up and divide by num_boxes.
# region: 8.4 box_loss
distance = (boxes - true_boxes).abs().sum()
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), paired=True)
return F.l1_loss(boxes, true_boxes), (1 - overlap).sum() / num_boxes
