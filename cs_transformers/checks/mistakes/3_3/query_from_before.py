# The queries are those of the self-attention: `query` was made before tgt changed; make it anew from the new tgt.
key = with_pos(memory, memory_pos)
attended = self.cross_attn(query, key, memory, memory_mask, **other)
tgt = self.norm_cross(tgt + self.dropout_cross(attended))
return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
