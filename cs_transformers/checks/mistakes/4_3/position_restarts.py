# The joined keys and values are returned but not stored: the cache stays as it was, and the next token starts at position 0 again.
if cache.key is not None:
    return torch.cat((cache.key, key), dim=2), torch.cat((cache.value, value), dim=2)
return key, value
