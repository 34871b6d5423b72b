# The row of the embedding is read as (D, P) and turned: its numbers lie patch by patch, view(P, D).
embedding = self.task_embedding.weight[index].view(self.embed_dim, self.num_patches).T
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, memory, query_pos=embedding)
return tokens + self.mlp(tokens)
