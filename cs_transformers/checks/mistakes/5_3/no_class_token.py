# There is no class token: the head reads the first patch; put self.class_token in front.
return self.head(self.transformer(self.positional_encoding(self.patch_embed(x)))[:, 0])
