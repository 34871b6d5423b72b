# <START> is chosen as a word: forbid it, as well as <NULL>, before the argmax.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (null,)).argmax(dim=-1)
    answer[:, position] = word.masked_fill(finished, null)
    finished = finished | (word == end)
    if finished.all():
        break
    tokens = answer[:, position, None]
return answer
