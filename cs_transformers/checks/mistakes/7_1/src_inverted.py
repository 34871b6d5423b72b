# The mask of the source is inverted: True must stand where a real word is, as everywhere in this course; torch's own modules mean the opposite.
# region: 7.1 make_src_mask
return (src == pad)[:, None, None, :]
