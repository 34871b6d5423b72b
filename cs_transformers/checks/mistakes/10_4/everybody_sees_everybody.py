# shift_mask lets all tokens of a window see each other: those that the shift wrapped around are no neighbours of the others.
# region: 10.4 shift_mask
count, places = rows * columns // window**2, window * window
return torch.ones(count, places, places, dtype=torch.bool)
