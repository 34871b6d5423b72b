# The head reads the last token, a patch: the class token is the first one.
patches = self.patch_embed(x)
first = self.class_token.expand(len(patches), -1, -1)
tokens = self.positional_encoding(torch.cat((first, patches), dim=1))
return self.head(self.transformer(tokens)[:, -1])
