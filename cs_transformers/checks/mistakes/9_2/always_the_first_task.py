# Every task gets the embedding of the first one: take the row `index`.
embedding = self.task_embedding.weight[0].view(self.num_patches, self.embed_dim)
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, memory, query_pos=embedding)
return tokens + self.mlp(tokens)
