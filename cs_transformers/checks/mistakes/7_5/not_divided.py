# The sum 5 + length is not divided by 6: a single word must give 1.
return float((5 + length) ** alpha)
