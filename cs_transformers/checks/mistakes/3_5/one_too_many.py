# There is one layer too many: num_layers copies, and the pattern stays outside.
return nn.ModuleList([layer, *(copy.deepcopy(layer) for _ in range(num_layers))])
