# This is length ** alpha, the plain normalisation of notebook 04: here 5 is added and the sum divided by 6.
return length**alpha
