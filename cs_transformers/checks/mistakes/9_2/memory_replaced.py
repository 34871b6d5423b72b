# Later layers look at the tokens instead of the memory: the second argument stays what the encoder made.
embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, tokens, query_pos=embedding)
return tokens + self.mlp(tokens)
