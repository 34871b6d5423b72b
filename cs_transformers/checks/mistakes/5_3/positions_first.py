# Positions are added before the class token joins, so it has none and the patches have those of their left neighbours: join first.
patches = self.positional_encoding(self.patch_embed(x))
first = self.class_token.expand(len(patches), -1, -1)
return self.head(self.transformer(torch.cat((first, patches), dim=1))[:, 0])
