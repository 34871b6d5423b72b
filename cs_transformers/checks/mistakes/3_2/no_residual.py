# The residual path is missing: each sublayer's output is added to its input before the norm.
query = with_pos(src, pos)
src = self.norm_self(self.dropout_self(self.self_attn(query, query, src, src_mask, **options)))
return self.norm_ffn(self.dropout_ffn(self.ffn(src)))
