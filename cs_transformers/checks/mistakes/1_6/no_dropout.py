# Dropout is lost in training: pass `dropout_p` on to the attention.
q, k, v = (split_heads(x, self.n_head) for x in self._project(query, key, value))
if cache is not None:
    k, v = extend_cache(cache, k, v)
context, weights = _attend(q, k, v, mask, 0.0, need_weights)
out = self.proj(join_heads(context))
return (out, weights) if need_weights else out
