# The argmax runs over the sentences (dim=0): each sentence chooses among the words, dim=-1.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=0)
    answer[:, position] = word.masked_fill(finished, null)
    finished = finished | (word == end)
    if finished.all():
        break
    tokens = answer[:, position, None]
return answer
