# The embeddings are multiplied by sqrt(D), as the first Transformer did: this model does not.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions) * math.sqrt(self.embedding.embedding_dim))
mask = causal_mask(captions.shape[1], device=captions.device)
return self.output(self.transformer(words, memory, mask, memory_key_mask=memory_mask))
