# The optimizer never steps: after loss.backward() call optimizer.step().
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for _ in range(steps):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.item())
return losses
