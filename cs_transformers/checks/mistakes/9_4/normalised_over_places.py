# relevance normalises along the places: a patch is a column of F.unfold, so its length is taken along dim=1.
# region: 9.4 relevance
queries = F.normalize(F.unfold(query, kernel_size=3, padding=1), dim=2)
keys = F.normalize(F.unfold(key, kernel_size=3, padding=1), dim=2)
return queries.transpose(1, 2) @ keys
