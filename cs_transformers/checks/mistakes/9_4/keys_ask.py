# relevance returns (N, R, P): rows belong to the image's places, columns to the reference's.
# region: 9.4 relevance
queries = F.normalize(F.unfold(query, kernel_size=3, padding=1), dim=1)
keys = F.normalize(F.unfold(key, kernel_size=3, padding=1), dim=1)
return keys.transpose(1, 2) @ queries
