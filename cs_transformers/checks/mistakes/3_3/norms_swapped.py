# The norms are swapped: self.norm_cross belongs to the look at the memory, self.norm_ffn to the feed-forward network.
query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
attended = self.cross_attn(query, key, memory, memory_mask, **other)
tgt = self.norm_ffn(tgt + self.dropout_cross(attended))
return self.norm_cross(tgt + self.dropout_ffn(self.ffn(tgt)))
