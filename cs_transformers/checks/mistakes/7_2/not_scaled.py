# The vectors are used without sqrt(D) and positions: take them from self._embed_src and self._embed_tgt.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
memory = self.encoder(self.src_embedding(src), src_mask)
return self.output(self.decoder(self.tgt_embedding(tgt), memory, tgt_mask, memory_mask=src_mask))
