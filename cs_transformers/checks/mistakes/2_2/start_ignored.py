# `start` is ignored: the first token stands at position `start`, so the slice begins there.
return self.dropout(x + table[:, : x.shape[1]])
