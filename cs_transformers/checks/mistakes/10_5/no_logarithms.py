# This is the slope of a line through the numbers themselves: the exponent is the slope between their logarithms.
x = x - x.mean()
return ((x * (y - y.mean())).sum() / x.square().sum()).item()
