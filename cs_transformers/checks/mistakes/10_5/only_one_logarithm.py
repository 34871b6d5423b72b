# Only the costs are taken to logarithms: the lengths have to be too.
y = y.log()
x = x - x.mean()
return ((x * (y - y.mean())).sum() / x.square().sum()).item()
