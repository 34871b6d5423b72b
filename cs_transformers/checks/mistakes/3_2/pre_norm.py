# This is pre-norm: here each norm stands behind its sum, norm(x + sublayer(x)).
value = self.norm_self(src)
query = with_pos(value, pos)
src = src + self.dropout_self(self.self_attn(query, query, value, src_mask, **options))
return src + self.dropout_ffn(self.ffn(self.norm_ffn(src)))
