# The class token is a new tensor of zeros that nothing trains: use the parameter self.class_token.
patches = self.patch_embed(x)
first = patches.new_zeros(len(patches), 1, patches.shape[-1])
tokens = self.positional_encoding(torch.cat((first, patches), dim=1))
return self.head(self.transformer(tokens)[:, 0])
