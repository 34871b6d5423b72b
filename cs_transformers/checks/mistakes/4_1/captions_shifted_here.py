# The captions are shifted in here: forward reads them as they come, the shift is the work of caption_loss.
memory = self._place(self.visual_projection(features))
words = self.positional_encoding(self.embedding(captions[:, :-1]))
mask = causal_mask(words.shape[1], device=captions.device)
return self.output(self.transformer(words, memory, mask, memory_key_mask=memory_mask))
