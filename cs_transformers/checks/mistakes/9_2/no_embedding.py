# The task embedding is not used, so every task is decoded alike: pass it to each layer as query_pos.
tokens = memory
for layer in self.decoder:
    tokens = layer(tokens, memory)
return tokens + self.mlp(tokens)
