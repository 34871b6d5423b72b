# The weights are thought to be spread evenly because nothing is trained: a softmax runs over the keys, and over one key it is 1.
weights = torch.full((num_queries, 1), 1 / num_queries)
return {"weights": weights, "query_gradient": torch.zeros(num_queries, head_dim), "key_gradient": torch.zeros(1, head_dim)}
