# The mask never reaches self.self_attn: pass src_mask on.
value = self.norm_self(src)
query = with_pos(value, pos)
src = src + self.dropout_self(self.self_attn(query, query, value, None, **options))
return src + self.dropout_ffn(self.ffn(self.norm_ffn(src)))
