# The fraction is upside down: the divisor must grow with the length.
return (6 / (5 + length)) ** alpha
