# Positions are added after the encoder: add them before, so that the layers can use them.
return self.head(self.positional_encoding(self.transformer(self.patch_embed(x))).mean(dim=1))
