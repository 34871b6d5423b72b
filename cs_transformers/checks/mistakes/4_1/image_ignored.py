# The image is ignored: the memory that the decoder looks at must come from self.visual_projection(features).
memory = self._place(torch.zeros_like(self.visual_projection(features)))
words = self.positional_encoding(self.embedding(captions))
future_hidden = causal_mask(captions.shape[1], device=captions.device)
hidden = self.transformer(words, memory, future_hidden, memory_key_mask=memory_mask)
return self.output(hidden)
