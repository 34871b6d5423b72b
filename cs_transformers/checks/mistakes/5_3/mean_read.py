# The head reads the mean of all tokens: give it the class token alone, the first one.
patches = self.patch_embed(x)
first = self.class_token.expand(len(patches), -1, -1)
tokens = self.positional_encoding(torch.cat((first, patches), dim=1))
return self.head(self.transformer(tokens).mean(dim=1))
