# Nothing is dropped on the way to the residual path: use self.dropout_self and self.dropout_ffn on what the sublayers give.
query = with_pos(src, pos)
src = self.norm_self(src + self.self_attn(query, query, src, src_mask, **options))
return self.norm_ffn(src + self.ffn(src))
