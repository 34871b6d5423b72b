# The head reads the first patch alone: give it the mean of all tokens.
tokens = self.transformer(self.positional_encoding(self.patch_embed(x)))
return self.head(tokens[:, 0])
