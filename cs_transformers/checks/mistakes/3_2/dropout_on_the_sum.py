# Dropout acts on the sums: drop what a sublayer gives, before it joins the residual path.
query = with_pos(src, pos)
src = self.norm_self(self.dropout_self(src + self.self_attn(query, query, src, src_mask, **options)))
return self.norm_ffn(self.dropout_ffn(src + self.ffn(src)))
