# The tokens are summed: take their mean, or the head sees other sizes for other images.
tokens = self.transformer(self.positional_encoding(self.patch_embed(x)))
return self.head(tokens.sum(dim=1))
