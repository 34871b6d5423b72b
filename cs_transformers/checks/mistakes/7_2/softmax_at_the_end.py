# The scores went through a softmax: return them raw, the loss does that itself.
src_mask = make_src_mask(src, self.src_pad)
tgt_mask = make_tgt_mask(tgt, self.tgt_pad)
memory = self.encoder(self._embed_src(src), src_mask)
return self.output(self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask)).softmax(dim=-1)
