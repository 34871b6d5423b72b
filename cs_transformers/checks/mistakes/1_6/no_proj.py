# The output projection is missing: the joined heads still have to pass through self.proj.
q, k, v = (split_heads(x, self.n_head) for x in self._project(query, key, value))
if cache is not None:
    k, v = extend_cache(cache, k, v)
context, weights = _attend(q, k, v, mask, dropout_p, need_weights)
return (join_heads(context), weights) if need_weights else join_heads(context)
