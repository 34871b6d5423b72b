# Only the first layer gets the task embedding: every layer does.
embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)
tokens = self.decoder[0](memory, memory, query_pos=embedding)
for layer in self.decoder[1:]:
    tokens = layer(tokens, memory)
return tokens + self.mlp(tokens)
