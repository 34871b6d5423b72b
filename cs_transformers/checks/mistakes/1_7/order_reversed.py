# The outputs come in the wrong order: output i belongs to layer i.
weight = torch.cat([layer.weight for layer in layers])
bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
return F.linear(x, weight, bias).split(widths, dim=-1)[::-1]
