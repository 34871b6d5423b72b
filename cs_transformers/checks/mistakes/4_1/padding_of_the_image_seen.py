# The padding of the image is seen: pass memory_key_mask=memory_mask to self.transformer.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions))
mask = causal_mask(captions.shape[1], device=captions.device)
return self.output(self.transformer(words, memory, mask))
