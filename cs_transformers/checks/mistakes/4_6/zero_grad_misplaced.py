# The gradients are cleared between loss.backward() and optimizer.step(), so every step finds none: clear them before loss.backward().
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for memory, words in batches:
    loss = caption_loss(model(memory, words[:, :-1]), words, null=null, mean_over="positions")
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    losses.append(loss.item())
return losses
