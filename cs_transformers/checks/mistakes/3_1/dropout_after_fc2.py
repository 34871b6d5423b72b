# Dropout acts after self.fc2: it belongs between the activation and self.fc2.
return self.dropout(self.fc2(self.gelu(self.fc1(x))))
