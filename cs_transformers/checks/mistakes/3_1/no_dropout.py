# Nothing is dropped: self.dropout belongs between the activation and self.fc2.
return self.fc2(self.gelu(self.fc1(x)))
