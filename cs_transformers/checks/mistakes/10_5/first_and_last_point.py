# Only the first and the last point count: the line of least squares takes all of them.
x, y = x.log(), y.log()
return ((y[-1] - y[0]) / (x[-1] - x[0])).item()
