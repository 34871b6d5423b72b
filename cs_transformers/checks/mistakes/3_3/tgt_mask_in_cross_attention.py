# The causal mask is used in the look at the memory: there it is memory_mask; the whole memory is known beforehand.
query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
attended = self.cross_attn(query, key, memory, tgt_mask, **other)
tgt = self.norm_cross(tgt + self.dropout_cross(attended))
return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
