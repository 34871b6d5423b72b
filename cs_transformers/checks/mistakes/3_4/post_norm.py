# This is post-norm: here each norm stands before its sublayer, x + sublayer(norm(x)).
query = with_pos(src, pos)
src = self.norm_self(src + self.dropout_self(self.self_attn(query, query, src, src_mask, **options)))
return self.norm_ffn(src + self.dropout_ffn(self.ffn(src)))
