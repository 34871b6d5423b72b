# The weights are joined along their inputs (dim=1): a Linear's weight is (out, in), and its outputs are what must stand one below the other (dim=0).
weight = torch.cat([layer.weight for layer in layers], dim=1)
bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
return F.linear(x, weight, bias).split(widths, dim=-1)
