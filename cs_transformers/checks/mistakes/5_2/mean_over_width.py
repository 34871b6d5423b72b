# The mean runs over the width (dim=-1): average over the tokens, dim=1.
tokens = self.transformer(self.positional_encoding(self.patch_embed(x)))
return self.head(tokens.mean(dim=-1))
