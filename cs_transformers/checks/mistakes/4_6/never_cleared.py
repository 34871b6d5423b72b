# The gradients of all steps add up: clear them with optimizer.zero_grad() before each loss.backward().
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for memory, words in batches:
    loss = caption_loss(model(memory, words[:, :-1]), words, null=null, mean_over="positions")
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
return losses
