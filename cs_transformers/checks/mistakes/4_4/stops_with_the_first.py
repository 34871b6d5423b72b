# Decoding stops when the first sentence has ended: go on until all have (finished.all()).
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=-1)
    answer[:, position] = word.masked_fill(finished, null)
    finished = finished | (word == end)
    if finished.any():
        break
    tokens = answer[:, position, None]
return answer
