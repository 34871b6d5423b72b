# The mask of the target hides the future but not the padding: join it with tgt != pad by &.
# region: 7.1 make_tgt_mask
past = causal_mask(tgt.shape[1], device=tgt.device)
return past.expand(len(tgt), 1, -1, -1)
