# The image is ignored: the decoder looks at the words a second time; its memory must be the projected features.
words = self.positional_encoding(self.embedding(captions))
future_hidden = causal_mask(captions.shape[1], device=captions.device)
hidden = self.transformer(words, words, future_hidden)
return self.output(hidden)
