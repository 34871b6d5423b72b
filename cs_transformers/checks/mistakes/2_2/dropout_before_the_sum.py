# Dropout acts on the tokens before the positions are added: drop entries of the sum.
stop = start + x.shape[1]
return self.dropout(x) + table[:, start:stop]
