# split_heads takes every H-th column into a head: H and K are swapped when the last axis is cut; it becomes (H, K), in this order.
# region: 1.5 split_heads
pieces = x.unflatten(-1, (-1, num_heads))
return pieces.permute(0, 3, 1, 2)
