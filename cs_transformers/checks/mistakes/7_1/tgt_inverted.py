# The mask of the target is inverted: True means "may be looked at", so real words of the past are True.
# region: 7.1 make_tgt_mask
return ~((tgt != pad)[:, None, None, :] & causal_mask(tgt.shape[1], device=tgt.device))
