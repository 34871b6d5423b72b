# Positions are added before the norm: add them after it.
value = self.norm_self(src)
query = self.norm_self(with_pos(src, pos))
src = src + self.dropout_self(self.self_attn(query, query, value, src_mask, **options))
return src + self.dropout_ffn(self.ffn(self.norm_ffn(src)))
