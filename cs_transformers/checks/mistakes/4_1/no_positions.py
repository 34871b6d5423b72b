# The words have no positions: send the embedded captions through self.positional_encoding.
memory = self._place(self.visual_projection(features))
mask = causal_mask(captions.shape[1], device=captions.device)
return self.output(self.transformer(self.embedding(captions), memory, mask, memory_key_mask=memory_mask))
