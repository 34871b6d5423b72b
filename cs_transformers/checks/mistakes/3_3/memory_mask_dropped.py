# The mask of the memory never reaches self.cross_attn: pass memory_mask on.
query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
attended = self.cross_attn(query, key, memory, None, **other)
tgt = self.norm_cross(tgt + self.dropout_cross(attended))
return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
