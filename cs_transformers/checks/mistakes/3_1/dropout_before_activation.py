# Dropout acts before the activation: it belongs between the activation and self.fc2.
return self.fc2(self.gelu(self.dropout(self.fc1(x))))
