# The numbers are right, but each layer makes a product of its own: join the weights first and multiply once.
return tuple(layer(x) for layer in layers)
