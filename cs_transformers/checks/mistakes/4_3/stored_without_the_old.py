# The joined keys and values are returned, but only the new ones are stored: store what you return.
joined = (key, value)
if cache.key is not None:
    joined = torch.cat((cache.key, key), dim=2), torch.cat((cache.value, value), dim=2)
cache.key, cache.value = key, value
return joined
