"""Greedy and beam search against loops and exhaustive search over a model that depends on the whole prefix."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from cs_transformers.decoding import beam_search, beam_step, forbid_tokens, greedy_decode

NULL, START, END = 0, 1, 2
SPECIAL = {"start": START, "end": END, "null": NULL}


@dataclass
class Prefix:
    """A state that remembers everything: which sentence a row belongs to and all tokens it was fed."""

    sentence: Tensor  # (M,)
    tokens: Tensor  # (M, t)

    def reorder(self, index: Tensor) -> Prefix:
        return Prefix(self.sentence[index], self.tokens[index])


class PrefixModel:
    """Random tables added up over all tokens read, so that no two prefixes are alike."""

    def __init__(self, sentences: int, vocabulary: int, length: int, seed: int, sharpness: float = 2.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (sentences, length + 1, vocabulary, vocabulary)
        self.tables = sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)
        self.calls = 0

    def logits(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        return sum(self.tables[sentence, place, token] for place, token in enumerate(prefix))

    def start(self) -> Prefix:
        rows = len(self.tables)
        return Prefix(torch.arange(rows), torch.empty(rows, 0, dtype=torch.int64))

    def step(self, tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        self.calls += 1
        state = Prefix(state.sentence, torch.cat([state.tokens, tokens], dim=1))
        rows = zip(state.sentence.tolist(), state.tokens.tolist(), strict=True)
        return torch.stack([self.logits(row, tuple(prefix)) for row, prefix in rows]), state


def sentences_up_to(vocabulary: int, length: int) -> list[tuple[int, ...]]:
    """List everything a search may answer: words then END, or `length` words that never ended."""
    words = [token for token in range(vocabulary) if token not in SPECIAL.values()]
    ended = [(*body, END) for n in range(length) for body in itertools.product(words, repeat=n)]
    return ended + list(itertools.product(words, repeat=length))


def log_probability(model: PrefixModel, sentence: int, tokens: tuple[int, ...]) -> float:
    fed, total = (START,), 0.0
    for token in tokens:
        row = model.logits(sentence, fed).tolist()
        total += row[token] - math.log(sum(math.exp(value) for value in row))
        fed = (*fed, token)
    return total


def padded(tokens: tuple[int, ...], length: int) -> list[int]:
    return [*tokens, *[NULL] * (length - len(tokens))]


def greedy_by_loops(model: PrefixModel, sentence: int, length: int) -> list[int]:
    fed, answer = (START,), ()
    while len(answer) < length and END not in answer:
        row = model.logits(sentence, fed).tolist()
        word = max((token for token in range(len(row)) if token not in (NULL, START)), key=lambda token: row[token])
        fed, answer = (*fed, word), (*answer, word)
    return padded(answer, length)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_best_word_of_every_step(seed: int) -> None:
    model = PrefixModel(sentences=4, vocabulary=6, length=7, seed=seed)
    answer = greedy_decode(model.step, model.start(), 4, max_length=7, **SPECIAL)
    assert answer.dtype == torch.int64
    assert answer.tolist() == [greedy_by_loops(model, row, 7) for row in range(4)]


def scripted(*rows: list[int]) -> tuple[list[Tensor], object]:
    """Make a step whose best word at time t is rows[n][t], with START and NULL better still."""
    fed = []

    def step(tokens: Tensor, state: int) -> tuple[Tensor, int]:
        fed.append(tokens.clone())
        logits = torch.zeros(len(rows), 8)
        logits[:, [NULL, START]] = 9.0
        for n, row in enumerate(rows):
            logits[n, row[state]] = 5.0
        return logits, state + 1

    return fed, step


def test_a_sentence_that_ended_is_null_from_there_on_while_others_go_on() -> None:
    _, step = scripted([3, END, 4, 5, 6], [5, 6, 7, END, 3])
    answer = greedy_decode(step, 0, 2, max_length=5, **SPECIAL)
    assert answer.tolist() == [[3, END, NULL, NULL, NULL], [5, 6, 7, END, NULL]]


def test_greedy_feeds_start_then_its_own_words_and_stops_when_all_ended() -> None:
    fed, step = scripted([3, 4, END, 6, 7], [5, END, 3, 3, 3])
    greedy_decode(step, 0, 2, max_length=5, **SPECIAL)
    assert len(fed) == 3
    assert [tokens[0].item() for tokens in fed] == [START, 3, 4]
    assert fed[0].shape == (2, 1)


def test_start_and_null_are_never_chosen_even_if_the_model_wants_them() -> None:
    _, step = scripted([3, 4, 5], [6, 7, 3])
    answer = greedy_decode(step, 0, 2, max_length=3, **SPECIAL)
    assert not torch.isin(answer, torch.tensor([NULL, START])).any()


def test_a_sentence_that_never_ends_is_cut_at_max_length() -> None:
    _, step = scripted([3, 4, 5, 6])
    assert greedy_decode(step, 0, 1, max_length=4, **SPECIAL).tolist() == [[3, 4, 5, 6]]
    _, step = scripted([3])
    assert greedy_decode(step, 0, 1, max_length=1, **SPECIAL).tolist() == [[3]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_greedy_takes_logits_of_any_float_dtype(dtype: torch.dtype) -> None:
    _, step = scripted([3, END])
    answer = greedy_decode(
        lambda tokens, state: (step(tokens, state)[0].to(dtype), state + 1), 0, 1, max_length=2, **SPECIAL
    )
    assert answer.tolist() == [[3, END]]


@pytest.mark.parametrize("seed", range(8))
def test_one_beam_is_greedy(seed: int) -> None:
    model = PrefixModel(sentences=3, vocabulary=7, length=6, seed=seed)
    greedy = greedy_decode(model.step, model.start(), 3, max_length=6, **SPECIAL)
    for alpha in (0.0, 0.7):
        one, scores = beam_search(model.step, model.start(), 3, max_length=6, beam_size=1, alpha=alpha, **SPECIAL)
        assert one.tolist() == greedy.tolist()
        for row, tokens in enumerate(one.tolist()):
            words = tuple(token for token in tokens if token != NULL)
            assert scores[row].item() == pytest.approx(
                log_probability(model, row, words) / len(words) ** alpha, abs=1e-9
            )


@pytest.mark.parametrize("seed", range(3))
def test_a_penalty_of_ones_own_takes_the_place_of_the_length(seed: int) -> None:
    vocabulary, length = 5, 4
    model = PrefixModel(sentences=3, vocabulary=vocabulary, length=length, seed=seed)
    options = {"max_length": length, "beam_size": 2**length * 2, "penalty": lambda words: 2.0 + words}
    answer, scores = beam_search(model.step, model.start(), 3, **options, **SPECIAL)
    for row in range(3):
        value = {s: log_probability(model, row, s) / (2 + len(s)) for s in sentences_up_to(vocabulary, length)}
        best = max(value, key=value.get)
        assert answer[row].tolist() == padded(best, length)
        assert scores[row].item() == pytest.approx(value[best], abs=1e-9)


def test_one_beam_is_greedy_among_equals_too() -> None:
    def step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        return torch.zeros(len(tokens), 9), state

    state = Prefix(torch.arange(2), torch.zeros(2, 0))
    greedy = greedy_decode(step, state, 2, start=0, end=8, null=1, max_length=3)
    assert beam_search(step, state, 2, start=0, end=8, null=1, max_length=3, beam_size=1)[0].tolist() == greedy.tolist()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_enough_beams_are_exhaustive_search(seed: int, alpha: float) -> None:
    vocabulary, length = 5, 4
    model = PrefixModel(sentences=3, vocabulary=vocabulary, length=length, seed=seed)
    answer, scores = beam_search(
        model.step, model.start(), 3, max_length=length, beam_size=2**length * 2, alpha=alpha, **SPECIAL
    )
    for row in range(3):
        value = {s: log_probability(model, row, s) / len(s) ** alpha for s in sentences_up_to(vocabulary, length)}
        best = max(value, key=value.get)
        assert answer[row].tolist() == padded(best, length)
        assert scores[row].item() == pytest.approx(value[best], abs=1e-9)


def test_a_wider_beam_finds_what_greedy_misses() -> None:
    # "3" looks best at first (0.5), but every sentence after it is poor; "4 END" has 0.4 * 1.
    probabilities = {
        (START,): [0, 0, 0.1, 0.5, 0.4],
        (START, 3): [0, 0, 0.4, 0.3, 0.3],
        (START, 4): [0, 0, 1, 0, 0],
    }

    def step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        state = Prefix(state.sentence, torch.cat([state.tokens, tokens], dim=1))
        rows = [probabilities.get(tuple(prefix), [0.2] * 5) for prefix in state.tokens.tolist()]
        return torch.tensor(rows, dtype=torch.float64).log(), state

    state = Prefix(torch.zeros(1, dtype=torch.int64), torch.empty(1, 0, dtype=torch.int64))
    assert greedy_decode(step, state, 1, max_length=2, **SPECIAL).tolist() == [[3, END]]
    answer, scores = beam_search(step, state, 1, max_length=2, beam_size=2, **SPECIAL)
    assert answer.tolist() == [[4, END]]
    assert scores.exp().item() == pytest.approx(0.4)


def test_the_length_exponent_prefers_longer_sentences() -> None:
    # END at once has 0.4, two words and END 0.6 * 0.6 * 0.99 = 0.356: less, but more per word.
    def step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        state = Prefix(state.sentence, torch.cat([state.tokens, tokens], dim=1))
        row = {1: [0, 0, 0.4, 0.6], 2: [0, 0, 0.4, 0.6], 3: [0, 0, 0.99, 0.01]}[state.tokens.shape[1]]
        return torch.tensor(row, dtype=torch.float64).log().expand(len(tokens), 4), state

    state = Prefix(torch.zeros(1, dtype=torch.int64), torch.empty(1, 0, dtype=torch.int64))
    short, _ = beam_search(step, state, 1, max_length=3, beam_size=4, alpha=0.0, **SPECIAL)
    long, _ = beam_search(step, state, 1, max_length=3, beam_size=4, alpha=1.0, **SPECIAL)
    assert short.tolist() == [[END, NULL, NULL]]
    assert long.tolist() == [[3, 3, END]]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_without_an_end_the_best_unfinished_sentence_comes_back(beam_size: int) -> None:
    model = PrefixModel(sentences=2, vocabulary=6, length=5, seed=3)
    model.tables[..., END] = -1e4
    answer, scores = beam_search(model.step, model.start(), 2, max_length=5, beam_size=beam_size, **SPECIAL)
    assert not torch.isin(answer, torch.tensor([NULL, START, END])).any()
    assert torch.isfinite(scores).all()


def test_many_beams_prefer_the_unfinished_sentence_to_an_all_but_impossible_end() -> None:
    model = PrefixModel(sentences=2, vocabulary=5, length=3, seed=3)
    model.tables[..., END] = -1e4
    answer, _ = beam_search(model.step, model.start(), 2, max_length=3, beam_size=50, **SPECIAL)
    assert END not in answer


def test_a_row_of_a_batch_is_searched_as_if_it_were_alone() -> None:
    model = PrefixModel(sentences=3, vocabulary=8, length=6, seed=11)
    together, scores = beam_search(model.step, model.start(), 3, max_length=6, beam_size=3, alpha=0.6, **SPECIAL)
    for row in range(3):
        alone, score = beam_search(
            model.step, model.start().reorder(torch.tensor([row])), 1, max_length=6, beam_size=3, alpha=0.6, **SPECIAL
        )
        assert alone[0].tolist() == together[row].tolist()
        assert score[0].item() == pytest.approx(scores[row].item(), abs=1e-12)


def test_the_search_stops_when_nothing_alive_can_win() -> None:
    model = PrefixModel(sentences=2, vocabulary=6, length=30, seed=0)
    model.tables[:, 0, :, END] = 50.0
    answer, _ = beam_search(model.step, model.start(), 2, max_length=30, beam_size=4, **SPECIAL)
    assert answer[:, 0].tolist() == [END, END]
    assert model.calls == 1


def test_a_state_may_reorder_itself_in_place() -> None:
    class InPlace:
        def __init__(self, prefix: Prefix) -> None:
            self.prefix = prefix

        def reorder(self, index: Tensor) -> None:
            self.prefix = self.prefix.reorder(index)

    model = PrefixModel(sentences=2, vocabulary=6, length=5, seed=5)

    def step(tokens: Tensor, state: InPlace) -> tuple[Tensor, InPlace]:
        logits, state.prefix = model.step(tokens, state.prefix)
        return logits, state

    expected = beam_search(model.step, model.start(), 2, max_length=5, beam_size=3, **SPECIAL)
    got = beam_search(step, InPlace(model.start()), 2, max_length=5, beam_size=3, **SPECIAL)
    assert got[0].tolist() == expected[0].tolist()


def test_a_beam_step_equals_sorting_all_candidates_by_hand() -> None:
    N, B, V = 3, 4, 7
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(N, B, V, generator=generator, dtype=torch.float64)
    scores = torch.randn(N, B, generator=generator, dtype=torch.float64)
    finished = torch.tensor([[False, True, False, False], [False] * 4, [True, True, True, False]])
    best, parents, tokens = beam_step(logits, scores, finished, forbidden=(0, 5))
    for n in range(N):
        candidates = []
        for b, v in itertools.product(range(B), range(V)):
            if not finished[n, b] and v not in (0, 5):
                log_sum = math.log(sum(math.exp(value) for value in logits[n, b].tolist()))
                candidates.append((scores[n, b].item() + logits[n, b, v].item() - log_sum, b, v))
        expected = sorted(candidates, reverse=True)[:B]
        assert best[n].tolist() == pytest.approx([score for score, _, _ in expected], abs=1e-12)
        assert list(zip(parents[n].tolist(), tokens[n].tolist(), strict=True)) == [(b, v) for _, b, v in expected]


def test_where_too_few_extensions_exist_the_score_is_minus_infinity() -> None:
    finished = torch.tensor([[True, False, True]])
    best, _, tokens = beam_step(torch.zeros(1, 3, 4), torch.zeros(1, 3), finished, forbidden=(0, 1))
    assert torch.isinf(best).tolist() == [[False, False, True]]
    assert tokens[0, :2].tolist() == [2, 3]


def test_forbidding_tokens_leaves_the_argument_alone() -> None:
    scores = torch.ones(2, 3)
    assert torch.isinf(forbid_tokens(scores, (0, 2))).tolist() == [[True, False, True]] * 2
    assert torch.equal(scores, torch.ones(2, 3))


def test_forbidding_tokens_needs_scores_that_can_be_minus_infinity() -> None:
    with pytest.raises(TypeError, match=r"forbid_tokens: scores must be a torch\.Tensor, got list"):
        forbid_tokens([0.5, 1.0], (0,))
    with pytest.raises(TypeError, match=r"scores must be a tensor of a floating dtype, got torch\.int64"):
        forbid_tokens(torch.tensor([1, 2]), (0,))


def model_step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
    return torch.ones(len(tokens), 5), state


SEARCHES = [greedy_decode, beam_search]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_length": 0}, ValueError, "max_length must be a positive whole number, got 0"),
        ({"max_length": -2}, ValueError, "max_length must be a positive whole number, got -2"),
        ({"max_length": True}, TypeError, "max_length must be a positive whole number, got True"),
        ({"max_length": 2.5}, TypeError, "max_length must be a positive whole number, got 2.5"),
        ({"end": START}, ValueError, "start, end, null must be three different ids"),
        ({"null": END}, ValueError, "start, end, null must be three different ids"),
        ({"end": None}, TypeError, "end must be a whole number of at least 0, got None"),
        ({"start": -1}, ValueError, "start must be a whole number of at least 0, got -1"),
        ({"end": 5}, ValueError, "special ids must be from 0 to V - 1 = 4"),
    ],
)
def test_a_search_refuses_bad_settings(search: object, change: dict, error: type, message: str) -> None:
    settings = {**SPECIAL, "max_length": 3, **change}
    with pytest.raises(error, match=message):
        search(model_step, Prefix(torch.zeros(2), torch.zeros(2)), 2, **settings)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_refuses_a_negative_batch(search: object) -> None:
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 0, got -1"):
        search(model_step, Prefix(torch.zeros(2), torch.zeros(2)), -1, max_length=3, **SPECIAL)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_search_refuses_nan_and_infinity(search: object, poison: float) -> None:
    def step(tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        logits = torch.zeros(len(tokens), 5)
        logits[1, 3] = poison
        return logits, state

    with pytest.raises(ValueError, match="the largest logit must be a finite number, got NaN or infinity"):
        search(step, Prefix(torch.zeros(2), torch.zeros(2)), 2, max_length=3, **SPECIAL)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("shape", [(2, 1, 5), (3, 5), (5,)])
def test_a_search_refuses_logits_of_another_shape(search: object, shape: tuple[int, ...]) -> None:
    state = Prefix(torch.zeros(2), torch.zeros(2))
    with pytest.raises(ValueError, match="step: its first result must be logits"):
        search(lambda _, state: (torch.zeros(shape), state), state, 2, max_length=3, **SPECIAL)


@pytest.mark.parametrize("alpha", [-0.1, float("nan"), float("inf")])
def test_a_beam_refuses_a_bad_length_exponent(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must be a finite number of at least 0"):
        beam_search(model_step, Prefix(torch.zeros(2), torch.zeros(2)), 2, max_length=3, alpha=alpha, **SPECIAL)


def test_a_beam_refuses_no_beams_and_a_state_that_cannot_move() -> None:
    with pytest.raises(TypeError, match=r"alpha must be a number, got '0.6' \(str\)"):
        beam_search(model_step, Prefix(torch.zeros(2), torch.zeros(2)), 2, max_length=3, alpha="0.6", **SPECIAL)
    with pytest.raises(ValueError, match="beam_size must be a positive whole number, got 0"):
        beam_search(model_step, Prefix(torch.zeros(2), torch.zeros(2)), 2, max_length=3, beam_size=0, **SPECIAL)
    with pytest.raises(TypeError, match=r"state must be an object with reorder\(index\), got NoneType"):
        beam_search(model_step, None, 2, max_length=3, **SPECIAL)


def test_a_beam_step_refuses_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"scores must be of shape \(N, B\) = \(2, 3\) like the logits, got \(2, 4\)"):
        beam_step(torch.zeros(2, 3, 5), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"logits must be of shape \(N, B, V\), got \(2, 5\)"):
        beam_step(torch.zeros(2, 5), torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(TypeError, match="finished must be boolean, got torch"):
        beam_step(torch.zeros(2, 3, 5), torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="special ids must be from 0 to V - 1 = 4, got"):
        beam_step(torch.zeros(2, 3, 5), torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.bool), forbidden=(7,))
