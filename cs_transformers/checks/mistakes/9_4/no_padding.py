# relevance leaves out the places at the border: with padding=1 every place has a patch.
# region: 9.4 relevance
queries = F.normalize(F.unfold(query, kernel_size=3), dim=1)
keys = F.normalize(F.unfold(F.pad(key, (1, 1, 1, 1)), kernel_size=3), dim=1)
return queries.transpose(1, 2) @ keys
