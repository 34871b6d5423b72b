# The optimizer never steps: after loss.backward() call optimizer.step().
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for memory, words in batches:
    loss = caption_loss(model(memory, words[:, :-1]), words, null=null, mean_over="positions")
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.item())
return losses
