# The residual path is missing: each sublayer's output is added to its input before the norm.
query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
tgt = self.norm_cross(self.dropout_cross(self.cross_attn(query, key, memory, memory_mask, **other)))
return self.norm_ffn(self.dropout_ffn(self.ffn(tgt)))
