# The target is shifted in here: forward reads it as it comes, the caller passes it without its last word.
src_mask = make_src_mask(src, self.src_pad)
tgt = tgt[:, :-1]
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask))
