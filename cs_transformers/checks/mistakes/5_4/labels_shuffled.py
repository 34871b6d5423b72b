# Images and labels were shuffled apart, so each image learns another one's class: keep them in one order.
labels = labels[torch.randperm(len(labels))]
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for _ in range(steps):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
return losses
