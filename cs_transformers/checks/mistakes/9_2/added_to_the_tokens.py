# The embedding is added to the tokens once, so it is in the values and in the result too: pass it as query_pos, which goes to queries and keys only.
embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)
tokens = memory + embedding
for layer in self.decoder:
    tokens = layer(tokens, memory)
return tokens + self.mlp(tokens)
