# Lengths over costs: the slope divides by the squares of the lengths, not of the costs.
x, y = x.log(), y.log()
y = y - y.mean()
return ((y * (x - x.mean())).sum() / y.square().sum()).item() if bool(y.any()) else 0.0
