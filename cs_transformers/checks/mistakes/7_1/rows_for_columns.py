# The padding of the target is hidden as a query and not as a key: rows are queries, so the real words belong to the last axis.
# region: 7.1 make_tgt_mask
real = tgt != pad
past = causal_mask(tgt.shape[1], device=tgt.device)
return real[:, None, :, None] & past
