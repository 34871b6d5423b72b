# The target is compared with 0 instead of pad: the padding may have any id.
# region: 7.1 make_tgt_mask
real = tgt != 0
past = causal_mask(tgt.shape[1], device=tgt.device)
return real[:, None, None, :] & past
