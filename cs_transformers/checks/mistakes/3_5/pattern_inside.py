# The pattern itself is in the stack: it stays outside, all num_layers layers are copies.
return nn.ModuleList([layer, *(copy.deepcopy(layer) for _ in range(num_layers - 1))])
