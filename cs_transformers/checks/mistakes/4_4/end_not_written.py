# <END> is replaced by <NULL>: the word that ends a sentence is part of it, only what follows is `null`.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=-1)
    finished = finished | (word == end)
    answer[:, position] = word.masked_fill(finished, null)
    if finished.all():
        break
    tokens = answer[:, position, None]
return answer
