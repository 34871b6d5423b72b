# The slice cuts the first axis of the table, which has length 1; positions are its second axis: table[:, start:stop].
stop = start + x.shape[1]
return self.dropout(x + table[start:stop])
