# self.key projects the queries and self.query the keys: each layer belongs to the input of its name.
q, k, v = (split_heads(x, self.n_head) for x in (self.key(query), self.query(key), self.value(value)))
if cache is not None:
    k, v = extend_cache(cache, k, v)
context, weights = _attend(q, k, v, mask, dropout_p, need_weights)
out = self.proj(join_heads(context))
return (out, weights) if need_weights else out
