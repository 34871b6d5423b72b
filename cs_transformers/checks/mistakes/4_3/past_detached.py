# The cache holds detached copies, so no gradient reaches the tokens read earlier: store the tensors as they are.
if cache.key is not None:
    key = torch.cat((cache.key, key), dim=2)
    value = torch.cat((cache.value, value), dim=2)
cache.key, cache.value = key.detach(), value.detach()
return key, value
