# The model reads <START> at every position: feed it the word that was just chosen.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=-1)
    answer[:, position] = word.masked_fill(finished, null)
    finished = finished | (word == end)
    if finished.all():
        break
return answer
