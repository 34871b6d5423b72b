# The number of rows is taken from the batch (x.shape[0]); positions belong to tokens, x.shape[1].
return self.dropout(x + table[:, start : start + x.shape[0]])
