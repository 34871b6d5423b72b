# The scores went through a softmax: return them raw, the loss does that itself.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions))
mask = causal_mask(captions.shape[1], device=captions.device)
return self.output(self.transformer(words, memory, mask, memory_key_mask=memory_mask)).softmax(dim=-1)
