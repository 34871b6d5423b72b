# The heads are not split: all columns form one head; use split_heads before and join_heads after the attention.
q, k, v = (x.unsqueeze(1) for x in self._project(query, key, value))
context, weights = _attend(q, k, v, None if mask is None else mask[:, :1], dropout_p, need_weights)
out = self.proj(context.squeeze(1))
return (out, weights) if need_weights else out
