# The biases are lost: join them too and give them to F.linear.
weight = torch.cat([layer.weight for layer in layers])
return F.linear(x, weight).split(widths, dim=-1)
