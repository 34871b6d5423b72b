# The tokens are joined along their width (dim=-1): in (N, H, S, K) the length is axis 2.
if cache.key is not None:
    key = torch.cat((cache.key, key), dim=-1)
    value = torch.cat((cache.value, value), dim=-1)
cache.key, cache.value = key, value
return key, value
