# The source's words stand along the axis of the queries: a mask of shape (N, 1, 1, S) has them on its last axis.
# region: 7.1 make_src_mask
return (src != pad)[:, None, :, None]
