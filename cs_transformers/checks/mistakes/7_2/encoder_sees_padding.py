# The encoder sees the padding of the source: pass src_mask to self.encoder too.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
memory = self.encoder(self._embed_src(src))
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask))
