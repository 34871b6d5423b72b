# Both masks are made with padding 0: pass self.src_pad and self.tgt_pad.
src_mask = make_src_mask(src)
tgt_mask = make_tgt_mask(tgt)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask))
