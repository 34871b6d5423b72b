# The mask of the target hides padding but not the future: join it with causal_mask by &.
# region: 7.1 make_tgt_mask
return (tgt != pad)[:, None, None, :].expand(-1, 1, tgt.shape[1], -1)
