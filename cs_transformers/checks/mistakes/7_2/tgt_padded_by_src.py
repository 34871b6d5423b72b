# The mask of the target is made with the padding of the source: each language has a padding of its own, self.tgt_pad.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.src_pad)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask))
