# The list holds one layer several times, so all of them share their weights: make deep copies.
return nn.ModuleList([layer] * num_layers)
