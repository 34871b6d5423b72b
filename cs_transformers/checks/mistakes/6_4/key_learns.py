# The key alone is thought to learn: its score too goes through a softmax over one entry, and its gradient is 0 like the query's.
weights = torch.ones(num_queries, 1)
return {"weights": weights, "query_gradient": torch.zeros(num_queries, head_dim), "key_gradient": torch.ones(1, head_dim)}
