# The mask never reaches self.self_attn: pass src_mask on.
query = with_pos(src, pos)
src = self.norm_self(src + self.dropout_self(self.self_attn(query, query, src, None, **options)))
return self.norm_ffn(src + self.dropout_ffn(self.ffn(src)))
