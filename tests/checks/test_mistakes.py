"""Each listed mistake fails the check it aims at and is named; no solution is; and so with inputs nobody has seen."""

from __future__ import annotations

from itertools import combinations

import pytest

from cs_transformers.checks import EXERCISES, references
from cs_transformers.checks.diagnosis import bears, diagnose, take
from cs_transformers.checks.refresh import Mistake, mistakes_of, recorded, with_mistake
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.stages import judge, points_of
from cs_transformers.checks.tree import Answers

CODED = [id for id, one in EXERCISES.items() if one.parts]
TRAINED = {"4.6": pytest.mark.learning, "5.4": pytest.mark.learning, "5.5": pytest.mark.slow}
FRESH = 20_261


def marked(id: str) -> tuple:
    return (TRAINED[id],) if id in TRAINED else ()


ALL = [
    pytest.param(id, mistake, id=f"{id}-{mistake.name}", marks=marked(id))
    for id in CODED
    for mistake in mistakes_of(id)
]
SOLUTIONS = [pytest.param(id, marks=marked(id)) for id in CODED]


@pytest.mark.parametrize(("id", "mistake"), ALL)
def test_a_mistake_is_not_passed_and_is_named(id: str, mistake: Mistake, runner: Runner, solved: Answers) -> None:
    one = EXERCISES[id]
    verdict = runner.verdict_on(one, with_mistake(solved, one.file, mistake))
    assert verdict.state in ("wrong", "partly")
    assert verdict.points < verdict.out_of
    assert verdict.diagnosis == [mistake.diagnosis]
    assert mistake.diagnosis in str(verdict)


@pytest.mark.parametrize("id", SOLUTIONS)
def test_the_solution_passes_with_all_points_and_no_diagnosis(id: str, runner: Runner, solved: Answers) -> None:
    verdict = runner.verdict_on(EXERCISES[id], solved)
    assert str(verdict).splitlines()[0] == verdict.line()
    assert verdict.passed, str(verdict)
    assert verdict.points == verdict.out_of == sum(EXERCISES[id].parts.values())
    assert not verdict.diagnosis
    assert not verdict.lines


@pytest.mark.parametrize("id", CODED)
def test_no_stored_mistake_fits_the_stored_solution_or_another_mistake(id: str) -> None:
    reference = references.load(id)
    assert {one.name for one in reference.fingerprints} == {one.name for one in mistakes_of(id)}, f"cst refresh {id}"
    assert not [one.name for one in reference.fingerprints if bears(one, reference.expected)]
    for one, other in combinations(reference.fingerprints, 2):
        same = one.prints == other.prints and one.errors == other.errors
        assert not same, f"{one.name} and {other.name} cannot be told apart"


@pytest.mark.parametrize("id", [param for param in SOLUTIONS if param.values[0] not in TRAINED])
def test_with_fresh_inputs_solutions_pass_and_mistakes_are_named(id: str, runner: Runner, solved: Answers) -> None:
    """What grading does: the same check, another seed, the mistakes run anew."""
    one = EXERCISES[id]
    expected = recorded(runner, one, solved, FRESH)
    assert points_of(one.parts, judge(one.parts, expected, recorded(runner, one, solved, FRESH))) == sum(
        one.parts.values()
    )
    wrong = {mistake.diagnosis: with_mistake(solved, one.file, mistake) for mistake in mistakes_of(id)}
    answers = {sentence: recorded(runner, one, bodies, FRESH) for sentence, bodies in wrong.items()}
    prints = [take(sentence, sentence, expected, answer, list(one.parts)) for sentence, answer in answers.items()]
    for sentence, answer in answers.items():
        outcome = judge(one.parts, expected, answer)
        assert points_of(one.parts, outcome) < sum(one.parts.values()), sentence
        assert [mistake.diagnosis for mistake in diagnose(prints, answer, [f.part for f in outcome.findings])] == [
            sentence
        ]


@pytest.mark.parametrize("id", CODED)
def test_fresh_inputs_are_other_inputs(id: str) -> None:
    assert references.load(id).seed == references.SEED != FRESH


def test_two_mistakes_in_two_functions_are_both_named(bench) -> None:
    split = "return x.reshape(x.shape[0], num_heads, x.shape[1], -1)\n"
    join = "return x.reshape(x.shape[0], x.shape[2], -1)\n"
    verdict = bench.verdict("1.5", **{"1.5 split_heads": split, "1.5 join_heads": join})
    assert [sentence.split()[0] for sentence in verdict.diagnosis] == ["split_heads", "join_heads"]


def test_a_mistake_written_in_other_words_is_still_the_same_mistake(bench) -> None:
    verdict = bench.verdict("1.1", **{"1.1": "return torch.einsum('nhtk,nhsk->nhts', query, key)\n"})
    assert verdict.diagnosis == [mistake.diagnosis for mistake in mistakes_of("1.1") if mistake.name == "no_scale"]


def sentence(id: str, name: str) -> str:
    return next(mistake.diagnosis for mistake in mistakes_of(id) if mistake.name == name)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("return torch.ones(target_length, source_length).triu().bool()", ["upper_no_offset", "always_on_the_cpu"]),
        ("return torch.triu(torch.ones(target_length, source_length, device=device)).bool()", ["upper_no_offset"]),
        ("return torch.tril(torch.ones(target_length, source_length))", ["numbers_no_offset", "always_on_the_cpu"]),
        (
            "return torch.triu(torch.ones(target_length, source_length), diagonal=1).bool()",
            ["true_means_blocked_no_offset", "always_on_the_cpu"],
        ),
    ],
)
def test_of_two_faults_of_a_mask_the_main_one_comes_first(body: str, names: list[str], bench) -> None:
    verdict = bench.verdict("1.4", **{"1.4": body + "\n"})
    assert verdict.diagnosis == [sentence("1.4", name) for name in names]
    assert verdict.lines[: len(names)] == verdict.diagnosis


def test_a_main_fault_that_nobody_knows_is_told_before_a_known_one(bench) -> None:
    body = "return torch.ones((target_length, source_length), dtype=torch.bool).tril(diagonal=2)\n"
    verdict = bench.verdict("1.4", **{"1.4": body})
    assert verdict.lines[0].startswith("values: mask[0, 1] is the first to differ")
    assert verdict.lines[1].startswith("values: the shape is right")
    assert verdict.lines[2] == sentence("1.4", "always_on_the_cpu")


def test_a_product_without_transposing_is_named_though_torch_refuses_its_shapes(bench) -> None:
    names = {"query @ key": "key_not_transposed_no_scale", "query @ key / query.shape[-1] ** 0.5": "key_not_transposed"}
    for body, name in names.items():
        verdict = bench.verdict("1.1", **{"1.1": f"return {body}\n"})
        assert verdict.diagnosis == [sentence("1.1", name)]


@pytest.mark.parametrize("blocked", ["-1e9", "-torch.inf"])
def test_a_softmax_over_the_wrong_axis_is_named_whatever_else_is_wrong(blocked: str, bench) -> None:
    body = f"if mask is not None:\n    scores = scores.masked_fill(~mask, {blocked})\nreturn scores.softmax(dim=-2)\n"
    verdict = bench.verdict("1.2", **{"1.2": body})
    assert verdict.diagnosis == [sentence("1.2", "softmax_over_queries")]


def test_an_unknown_mistake_is_not_guessed_and_the_first_entry_is_shown(bench) -> None:
    verdict = bench.verdict("1.1", **{"1.1": "return query @ key.transpose(-2, -1) / 2.2\n"})
    assert not verdict.diagnosis
    assert "scores of K keys[0, 0, 0, 0] is the first to differ: expected" in verdict.lines[0]


def test_right_answers_written_in_other_words_pass(bench) -> None:
    others = {
        "1.1": "return torch.einsum('...tk,...sk->...ts', query, key) * query.shape[-1] ** -0.5\n",
        "1.2": "if mask is None:\n    return F.softmax(scores, -1)\nmask = mask.expand_as(scores)\n"
        "low = scores.masked_fill(~mask, float('-inf'))\n"
        "high = low.amax(-1, keepdim=True).clamp(min=-1e300)\n"
        "e = (low - high).exp()\nreturn e / e.sum(-1, keepdim=True).clamp(min=1e-300)\n",
        "1.4": "s = target_length if source_length is None else source_length\n"
        "t = torch.arange(target_length, device=device)[:, None] + s - target_length\n"
        "return torch.arange(s, device=device)[None] <= t\n",
        "2.1": "t = torch.zeros(max_len, embed_dim, dtype=torch.float64)\nfor p in range(max_len):\n"
        "    for k in range(0, embed_dim, 2):\n        t[p, k] = math.sin(p / 10000 ** (k / embed_dim))\n"
        "        t[p, k + 1] = math.cos(p / 10000 ** (k / embed_dim))\nreturn t\n",
        "3.1": "h = self.dropout(F.gelu(x @ self.fc1.weight.T + self.fc1.bias))\n"
        "return F.linear(h, self.fc2.weight, self.fc2.bias)\n",
        "4.2": "logp = scores.log_softmax(-1)\nt = captions[:, 1:]\nn = -logp.gather(-1, t[..., None])[..., 0]\n"
        "n = (1 - label_smoothing) * n - label_smoothing * logp.mean(-1)\nm = (t != null).to(n.dtype)\n"
        "return (n * m).sum() / (m.sum().clamp(min=1) if mean_over == 'words' else m.numel())\n",
        "5.1": "p = x.unfold(2, height, height).unfold(3, width, width)\np = p.permute(0, 2, 3, 1, 4, 5)\n"
        "return self.proj(p.flatten(3).flatten(1, 2))\n",
    }
    helpers = "import math\nimport torch.nn.functional as F\n"
    for id, body in others.items():
        verdict = bench.verdict(id, helpers=helpers, **{id: body})
        assert verdict.passed, str(verdict)
