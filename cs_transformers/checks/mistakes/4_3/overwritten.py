# The new keys and values overwrite the remembered ones: join them first.
cache.key, cache.value = key, value
return key, value
