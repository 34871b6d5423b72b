# The new tokens are put before the remembered ones: they come after them.
if cache.key is not None:
    key = torch.cat((key, cache.key), dim=2)
    value = torch.cat((value, cache.value), dim=2)
cache.key, cache.value = key, value
return key, value
