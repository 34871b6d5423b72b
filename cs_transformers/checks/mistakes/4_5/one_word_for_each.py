# Every hypothesis gets its own best word: choose the best B among all B * V candidates, so that a good one may have several successors.
candidates = scores[:, :, None] + forbid_tokens(logits.log_softmax(dim=-1), forbidden)
candidates = candidates.masked_fill(finished[:, :, None], float("-inf"))
best, tokens = candidates.max(dim=-1)
best, parents = best.sort(dim=1, descending=True, stable=True)
return best, parents, tokens.gather(1, parents)
