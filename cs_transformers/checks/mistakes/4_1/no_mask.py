# There is no causal mask: every word sees the words after it, so the model learns to copy the answer; pass causal_mask to self.transformer.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions))
return self.output(self.transformer(words, memory, memory_key_mask=memory_mask))
