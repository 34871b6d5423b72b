# The activation is ReLU: use self.gelu, which the constructor chose.
return self.fc2(self.dropout(torch.relu(self.fc1(x))))
