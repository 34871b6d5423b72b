# The activation is missing: without self.gelu between them, two linear layers are one.
return self.fc2(self.dropout(self.fc1(x)))
