# The learning rate is too low for so few steps: with Adam try 1e-3.
optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
losses = []
for memory, words in batches:
    loss = caption_loss(model(memory, words[:, :-1]), words, null=null, mean_over="positions")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
return losses
