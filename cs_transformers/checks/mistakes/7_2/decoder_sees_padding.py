# The decoder looks at the padding of the source: pass memory_mask=src_mask to self.decoder.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask))
