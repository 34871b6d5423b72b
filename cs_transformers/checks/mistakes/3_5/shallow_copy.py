# copy.copy makes new modules around the same weights: use copy.deepcopy.
return nn.ModuleList(copy.copy(layer) for _ in range(num_layers))
