# The embedding goes to the memory's keys (memory_pos): it belongs to the queries, query_pos.
embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, memory, memory_pos=embedding)
return tokens + self.mlp(tokens)
