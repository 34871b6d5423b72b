# Positions are added to the values too: queries and keys get them, values are src as it came.
query = with_pos(src, pos)
src = self.norm_self(src + self.dropout_self(self.self_attn(query, query, query, src_mask, **options)))
return self.norm_ffn(src + self.dropout_ffn(self.ffn(src)))
