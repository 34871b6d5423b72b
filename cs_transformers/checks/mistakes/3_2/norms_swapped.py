# The norms are swapped: self.norm_self belongs to the attention, self.norm_ffn to the feed-forward network.
query = with_pos(src, pos)
src = self.norm_ffn(src + self.dropout_self(self.self_attn(query, query, src, src_mask, **options)))
return self.norm_self(src + self.dropout_ffn(self.ffn(src)))
