# The memory asks and the target answers: queries come from tgt, keys and values from memory.
query, key = with_pos(memory, memory_pos), with_pos(tgt, query_pos)
attended = self.cross_attn(query, key, tgt, memory_mask, **other)
tgt = self.norm_cross(tgt + self.dropout_cross(attended))
return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
