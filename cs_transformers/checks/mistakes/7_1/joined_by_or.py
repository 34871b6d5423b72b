# Padding and future are joined by |, which shows what either one allows: a word must pass both, so use &.
# region: 7.1 make_tgt_mask
real = tgt != pad
past = causal_mask(tgt.shape[1], device=tgt.device)
return real[:, None, None, :] | past
