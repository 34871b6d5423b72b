# box_loss adds the overlap up: a perfect box has an overlap of 1 and must cost 0, so take 1 - GIoU.
# region: 8.4 box_loss
distance = (boxes - true_boxes).abs().sum()
overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), paired=True)
return distance / num_boxes, overlap.sum() / num_boxes
