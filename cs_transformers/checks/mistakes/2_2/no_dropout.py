# Nothing is dropped: pass the sum through self.dropout.
stop = start + x.shape[1]
return x + table[:, start:stop]
