# The copies stand in a plain list, in which torch does not find their parameters: use nn.ModuleList.
return [copy.deepcopy(layer) for _ in range(num_layers)]
