# The words are right, but the model is asked on after all sentences have ended: leave the loop then.
for position in range(max_length):
    logits, state = _advance(step, tokens, state, (start, end, null))
    word = forbid_tokens(logits, (start, null)).argmax(dim=-1)
    answer[:, position] = word.masked_fill(finished, null)
    finished = finished | (word == end)
    tokens = answer[:, position, None]
return answer
