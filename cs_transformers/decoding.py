"""From scores to sentences: greedy and beam search over any model that predicts one next word at a time.

N batch, B beams, V vocabulary, T length of the answer.

A model takes part through its ``step(tokens (N, 1), state) -> (logits (N, V), state)``. The state remembers what was
read so far (keys and values, say) and offers ``state.reorder(index)``, which makes row i of the state a copy of its
former row ``index[i]``: beam search moves the memories of its hypotheses around with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from .errors import check_count, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode without gradients, and put each module's own mode back whatever happens.

    Args:
        model: The model that writes.

    Returns:
        A context manager.

    Example:
        >>> layer = nn.Dropout(0.5)
        >>> with evaluating(layer):
        ...     layer.training
        False
        >>> layer.training
        True
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def forbid_tokens(scores: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """Set the scores of some tokens to minus infinity, so that no search ever chooses them.

    Args:
        scores: (..., V) logits or log-probabilities.
        tokens: Ids that must not be chosen.

    Returns:
        (..., V), a copy of ``scores``.

    Raises:
        TypeError: If ``scores`` is no floating tensor.
        ValueError: If an id is not below V.

    Example:
        >>> forbid_tokens(torch.tensor([0.5, 2.0, 1.0]), (1,))
        tensor([0.5000,   -inf, 1.0000])
    """
    check_tensor("forbid_tokens", "scores", scores)
    _check_ids("forbid_tokens", scores.shape[-1], tokens)
    allowed = scores.clone()
    allowed[..., list(tokens)] = float("-inf")
    return allowed


def greedy_decode(
    step: Step,
    state: Any,
    batch_size: int,
    *,
    start: int,
    end: int,
    null: int,
    max_length: int,
    device: torch.device | str | None = None,
) -> Tensor:
    """Take the most probable word, feed it back, and go on until every sentence has ended.

    ``word_t = argmax p(word | word_1, ..., word_{t-1})``, never ``start`` and never ``null``.

    Args:
        step: ``step(tokens (N, 1), state) -> (logits (N, V), state)``, the model.
        state: What ``step`` takes beside the first token.
        batch_size: Number of sentences N.
        start: Id fed first, never chosen.
        end: Id that ends a sentence; it is part of the answer.
        null: Id that fills a sentence after its end, never chosen before.
        max_length: Number of words T at which an unfinished sentence is cut.
        device: Where ``step`` expects its tokens, the CPU by default.

    Returns:
        (N, T) int64 ids: words, then ``end``, then ``null`` up to ``max_length``.

    Raises:
        ValueError: If ``max_length`` is below 1, two special ids are equal, or the model gives NaN.

    Example:
        >>> def count_to_five(tokens, state):
        ...     return torch.nn.functional.one_hot(tokens[:, 0] + 1, 7).float(), state
        >>> greedy_decode(count_to_five, None, 1, start=1, end=5, null=0, max_length=6)
        tensor([[2, 3, 4, 5, 0, 0]])
    """
    _check_search("greedy_decode", batch_size, start, end, null, max_length)
    tokens = torch.full((batch_size, 1), start, device=device)  # (N, 1), what the model reads next
    answer = torch.full((batch_size, max_length), null, device=device)  # (N, T)
    finished = torch.zeros(batch_size, dtype=torch.bool, device=device)  # (N,)
    # Exercise 4.4: for every position, ask `_advance(step, tokens, state, (start, end, null))` for the logits and the
    # next state, take the argmax of the logits that are allowed, write it down (rows that have ended get `null`), note
    # which rows ended, stop when all have, and feed what was written (about 8 lines).
    # Look at forbid_tokens, Tensor.argmax and Tensor.masked_fill.
    ### BEGIN SOLUTION 4.4
    for position in range(max_length):
        logits, state = _advance(step, tokens, state, (start, end, null))  # (N, V)
        word = forbid_tokens(logits, (start, null)).argmax(dim=-1)  # (N,)
        answer[:, position] = word.masked_fill(finished, null)
        finished = finished | (word == end)
        if finished.all():
            break
        tokens = answer[:, position, None]  # (N, 1)
    return answer
    ### END SOLUTION 4.4


def beam_step(
    logits: Tensor, scores: Tensor, finished: Tensor, *, forbidden: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Extend every living hypothesis by every word and keep the B best of all these.

    ``score(hypothesis + word) = score(hypothesis) + log p(word | hypothesis)``, the best B of B * V.

    Args:
        logits: (N, B, V) what the model says after each hypothesis.
        scores: (N, B) sums of log-probabilities so far.
        finished: (N, B) True for hypotheses that have left the beam and are not extended.
        forbidden: Ids that are never chosen; the probabilities of the other words stay as the model gave them.

    Returns:
        Three tensors (N, B), best first: the new scores, the hypothesis each came from, and the word it added. Where
        fewer than B extensions exist, the score is minus infinity.

    Raises:
        ValueError: If the shapes do not fit each other.
        TypeError: If ``finished`` is not boolean.

    Example:
        >>> logits = torch.tensor([[[0.7, 0.3], [0.9, 0.1]]]).log()
        >>> scores, finished = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[False, False]])
        >>> best, parents, tokens = beam_step(logits, scores, finished)
        >>> best.exp(), parents, tokens
        (tensor([[0.4500, 0.3500]]), tensor([[1, 0]]), tensor([[0, 0]]))

    Source:
        Sutskever et al. 2014, section 3.2, arXiv:1409.3215.
    """
    _check_candidates(logits, scores, finished)
    _, B, V = logits.shape
    # Exercise 4.5: log-probabilities, forbidden words out, add the scores, finished hypotheses out, sort all B * V
    # candidates of a row and split their indices into hypothesis and word (about 6 lines).
    # Look at Tensor.log_softmax, Tensor.flatten, Tensor.sort, // and %.
    ### BEGIN SOLUTION 4.5
    log_probs = forbid_tokens(logits.log_softmax(dim=-1), forbidden)  # (N, B, V)
    candidates = scores[:, :, None] + log_probs
    candidates = candidates.masked_fill(finished[:, :, None], float("-inf")).flatten(start_dim=1)  # (N, B * V)
    best, index = candidates.sort(dim=1, descending=True, stable=True)  # stable: among equals the first, as argmax
    best, index = best[:, :B], index[:, :B]  # (N, B)
    return best, index // V, index % V
    ### END SOLUTION 4.5


def beam_search(
    step: Step,
    state: Any,
    batch_size: int,
    *,
    start: int,
    end: int,
    null: int,
    max_length: int,
    beam_size: int = 5,
    alpha: float = 0.0,
    penalty: Callable[[int], float] | None = None,
    device: torch.device | str | None = None,
) -> tuple[Tensor, Tensor]:
    """Follow the B most probable beginnings at once and answer with the best sentence that any of them became.

    Sentences compare by ``sum(log p) / length ** alpha``; the length counts ``end``. A hypothesis that takes ``end``
    leaves the beam and is remembered; one that reaches ``max_length`` without it is compared as it is. One beam is
    greedy decoding; enough beams for every sentence are exhaustive search.

    Args:
        step: ``step(tokens (N * B, 1), state) -> (logits (N * B, V), state)``, the model.
        state: What ``step`` takes beside the first token, for N rows; ``state.reorder(index)`` picks its rows.
        batch_size: Number of sentences N.
        start: Id fed first, never chosen.
        end: Id that ends a sentence; it is part of the answer.
        null: Id that fills a sentence after its end, never chosen before.
        max_length: Number of words T at which an unfinished sentence is cut.
        beam_size: Number of hypotheses B that are followed.
        alpha: Exponent of the length, at least 0; 0 favours short sentences, 1 compares the mean per word.
        penalty: Function of a length that sums are divided by in place of ``length ** alpha``; it never falls.
        device: Where ``step`` expects its tokens, the CPU by default.

    Returns:
        The sentences, (N, T) int64 as of ``greedy_decode``, and their normalised scores, (N,).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``max_length`` or ``beam_size`` is below 1, ``alpha`` negative, two special ids are equal, or
            the model gives NaN.

    Example:
        >>> class NoState:
        ...     def reorder(self, index): return self
        >>> def step(tokens, state):
        ...     return torch.tensor([0.0, 0.0, 0.5, 0.3, 0.2]).log().expand(len(tokens), 5), state
        >>> beam_search(step, NoState(), 1, start=0, end=4, null=1, max_length=2, beam_size=3)[0]
        tensor([[2, 2]])
    """
    _check_search("beam_search", batch_size, start, end, null, max_length)
    _check_beam(beam_size, alpha)
    divisor, rows = penalty or (lambda length: length**alpha), torch.arange(batch_size, device=device)  # rows (N,)
    state = _reorder(state, rows.repeat_interleave(beam_size))
    scores = torch.full((batch_size, beam_size), float("-inf"), dtype=_score_dtype(device), device=device)  # (N, B)
    scores[:, 0] = 0.0  # all B hypotheses of a row begin alike: one of them lives
    finished = scores.isinf()
    words = torch.full_like(finished, start, dtype=torch.int64)  # (N, B)
    tokens = torch.full((batch_size, beam_size, max_length), null, device=device)  # (N, B, T)
    best, answer = torch.full_like(scores[:, 0], float("-inf")), tokens[:, 0]  # (N,) and (N, T)
    for position in range(max_length):
        logits, state = _advance(step, words.reshape(-1, 1), state, (start, end, null))  # (N * B, V)
        logits = logits.unflatten(0, (batch_size, beam_size)).to(scores.dtype)  # (N, B, V)
        scores, parents, words = beam_step(logits, scores, finished, forbidden=(start, null))
        tokens = tokens.gather(1, parents[:, :, None].expand_as(tokens))
        tokens[:, :, position] = words
        ended = (words == end) | (position + 1 == max_length)
        normalised = (scores / divisor(position + 1)).masked_fill(~ended, float("-inf"))  # (N, B)
        best, answer = _keep_better(best, answer, normalised, tokens)
        # The log-probability of a living hypothesis can only fall, so this is the most the row may still become.
        hope = scores.masked_fill(ended, float("-inf")).amax(dim=1) / divisor(max_length)  # (N,)
        finished = ended | scores.isinf() | (hope <= best)[:, None]
        if finished.all():
            break
        state = _reorder(state, (parents + rows[:, None] * beam_size).flatten())
    return answer, best


def _keep_better(best: Tensor, answer: Tensor, scores: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Let the best sentence that has just ended replace the best so far, where it is better."""
    challenger, beam = scores.max(dim=1)  # (N,)
    sentence = tokens.gather(1, beam[:, None, None].expand(-1, 1, tokens.shape[2])).squeeze(1)  # (N, T)
    answer = torch.where((challenger > best)[:, None], sentence, answer)
    return torch.maximum(best, challenger), answer


def _advance(step: Step, tokens: Tensor, state: Any, special: tuple[int, int, int]) -> tuple[Tensor, Any]:
    """Take one step of the model and refuse an answer that no search can use."""
    logits, state = step(tokens, state)
    check_tensor("step", "its first result", logits)
    if logits.dim() != 2 or logits.shape[0] != tokens.shape[0]:
        expected = f"logits of shape (N, V) with N = {tokens.shape[0]}"
        fix = "return the scores of the last position only"
        raise ValueError(explain("step", "its first result", expected, tuple(logits.shape), fix))
    _check_ids("step", logits.shape[1], special)
    start, _, null = special
    if not torch.isfinite(forbid_tokens(logits, (start, null)).amax(dim=-1)).all():
        fix = "look for NaN in the weights and in the features"
        raise ValueError(explain("step", "the largest logit", "a finite number", "NaN or infinity", fix))
    return logits, state


def _reorder(state: Any, index: Tensor) -> Any:
    """Let a state pick its rows, whether it does so in place or returns a new one."""
    if not callable(getattr(state, "reorder", None)):
        fix = "add the method, since hypotheses change places, or use greedy_decode"
        expected = "an object with reorder(index)"
        raise TypeError(explain("beam_search", "state", expected, type(state).__name__, fix))
    reordered = state.reorder(index)
    return state if reordered is None else reordered


def _score_dtype(device: torch.device | str | None) -> torch.dtype:
    # Sums of float64 keep apart what the logits keep apart, so that one beam is exactly greedy; mps has no float64.
    return torch.float32 if device is not None and torch.device(device).type == "mps" else torch.float64


def _check_ids(who: str, vocabulary: int, tokens: tuple[int, ...]) -> None:
    if not all(0 <= token < vocabulary for token in tokens):
        fix = "take them from the vocabulary that the model was built with"
        raise ValueError(explain(who, "special ids", f"from 0 to V - 1 = {vocabulary - 1}", tokens, fix))


def _check_candidates(logits: Tensor, scores: Tensor, finished: Tensor) -> None:
    who = "beam_step"
    check_tensor(who, "logits", logits)
    if logits.dim() != 3:
        raise ValueError(explain(who, "logits", "of shape (N, B, V)", tuple(logits.shape), "give each beam a row"))
    for name, tensor in (("scores", scores), ("finished", finished)):
        check_tensor(who, name, tensor, floating=name == "scores")
        if tensor.shape != logits.shape[:2]:
            expected = f"of shape (N, B) = {tuple(logits.shape[:2])} like the logits"
            raise ValueError(explain(who, name, expected, tuple(tensor.shape), "give one entry per hypothesis"))
    if finished.dtype != torch.bool:
        raise TypeError(explain(who, "finished", "boolean", finished.dtype, "convert it with .bool()"))


def _check_search(who: str, batch_size: int, start: int, end: int, null: int, max_length: int) -> None:
    check_count(who, "batch_size", batch_size, minimum=0)
    check_count(who, "max_length", max_length)
    for name, token in (("start", start), ("end", end), ("null", null)):
        check_count(who, name, token, minimum=0)
    if len({start, end, null}) < 3:
        fix = "give each a word of its own, or the end could not be told from the padding"
        raise ValueError(explain(who, "start, end, null", "three different ids", (start, end, null), fix))


def _check_beam(beam_size: int, alpha: float) -> None:
    check_count("beam_search", "beam_size", beam_size)
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(explain("beam_search", "alpha", "a number", f"{alpha!r} ({type(alpha).__name__})", "pass 0.0"))
    if not 0 <= alpha < float("inf"):
        fix = "pass 0 to compare sums of log-probabilities, 1 to compare their means"
        raise ValueError(explain("beam_search", "alpha", "a finite number of at least 0", alpha, fix))
