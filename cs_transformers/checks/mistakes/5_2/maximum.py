# The maximum over the tokens is read: take their mean.
tokens = self.transformer(self.positional_encoding(self.patch_embed(x)))
return self.head(tokens.amax(dim=1))
