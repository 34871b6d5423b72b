# The values are made from the query: project `value`, not `query`, with self.value.
q, k, v = (split_heads(x, self.n_head) for x in (self.query(query), self.key(key), self.value(query)))
if cache is not None:
    k, v = extend_cache(cache, k, v)
context, weights = _attend(q, k, v, mask, dropout_p, need_weights)
out = self.proj(join_heads(context))
return (out, weights) if need_weights else out
