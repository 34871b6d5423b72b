# The norm changes the residual path: add the sublayer's output to the tokens as they were before the norm.
src = self.norm_self(src)
query = with_pos(src, pos)
src = src + self.dropout_self(self.self_attn(query, query, src, src_mask, **options))
src = self.norm_ffn(src)
return src + self.dropout_ffn(self.ffn(src))
