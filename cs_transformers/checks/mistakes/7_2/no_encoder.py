# The source is not encoded: its vectors must go through self.encoder before the decoder looks at them.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
return self.output(self.decoder(self._embed_tgt(tgt), self._embed_src(src), tgt_mask, memory_mask=src_mask))
