# The patches have no positions, so the model cannot tell where they lie: send them through self.positional_encoding.
return self.head(self.transformer(self.patch_embed(x)).mean(dim=1))
