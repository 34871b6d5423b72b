# hard_index sends the scores through a softmax: the strength is the largest score itself.
# region: 9.4 hard_index
strength, index = scores.softmax(dim=2).max(dim=2)
return strength, index
