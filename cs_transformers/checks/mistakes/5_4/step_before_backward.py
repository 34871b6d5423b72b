# The optimizer steps after zero_grad and before loss.backward(), so it finds no gradients: zero_grad, backward, step.
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for _ in range(steps):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    optimizer.step()
    loss.backward()
    losses.append(loss.item())
return losses
