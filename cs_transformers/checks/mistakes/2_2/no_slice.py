# The whole table is added: cut it to the tokens there are, the rows from `start` to `start` + T.
return self.dropout(x + table)
