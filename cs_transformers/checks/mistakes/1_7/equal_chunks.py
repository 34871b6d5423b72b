# The result is cut into equal pieces: layers may differ in width, so cut it at `widths`.
weight = torch.cat([layer.weight for layer in layers])
bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
return F.linear(x, weight, bias).chunk(len(layers), dim=-1)
