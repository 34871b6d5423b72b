# The class token stands behind the patches: put it in front of them.
patches = self.patch_embed(x)
last = self.class_token.expand(len(patches), -1, -1)
tokens = self.positional_encoding(torch.cat((patches, last), dim=1))
return self.head(self.transformer(tokens)[:, -1])
