# The values are the tokens without their norm: values too come from self.norm_self(src).
query = with_pos(self.norm_self(src), pos)
src = src + self.dropout_self(self.self_attn(query, query, src, src_mask, **options))
return src + self.dropout_ffn(self.ffn(self.norm_ffn(src)))
