# The line is forced through the origin: subtract the mean of the logarithms first, since the factor before the power is free.
x, y = x.log(), y.log()
return ((x * y).sum() / x.square().sum()).item()
