# self.mlp replaces the tokens: it is added to them.
embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, memory, query_pos=embedding)
return self.mlp(tokens)
