# The image tokens do not get their positions: send the projected features through self._place.
memory = self.visual_projection(features)
words = self.positional_encoding(self.embedding(captions))
mask = causal_mask(captions.shape[1], device=captions.device)
return self.output(self.transformer(words, memory, mask, memory_key_mask=memory_mask))
