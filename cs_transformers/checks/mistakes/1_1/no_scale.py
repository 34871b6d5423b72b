# The scores are not scaled: divide them by the square root of the head width, the last axis of the query.
return query @ key.transpose(-2, -1)
