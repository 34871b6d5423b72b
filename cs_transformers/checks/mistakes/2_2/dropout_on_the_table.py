# Dropout acts on the positions alone: drop entries of the sum.
stop = start + x.shape[1]
return x + self.dropout(table[:, start:stop])
