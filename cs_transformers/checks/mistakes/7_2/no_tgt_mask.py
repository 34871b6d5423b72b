# The decoder has no mask for the target: every word sees the words after it, so the model learns to copy the answer.
src_mask = make_src_mask(src, self.src_pad)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, memory_mask=src_mask))
