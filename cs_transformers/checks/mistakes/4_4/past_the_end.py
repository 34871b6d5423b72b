# Sentences go on after <END>: rows that have ended get `null` from then on.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=-1)
    answer[:, position] = word
    finished = finished | (word == end)
    if finished.all():
        break
    tokens = answer[:, position, None]
return answer
