from __future__ import annotations

import pytest

from cs_transformers.checks import EXERCISES, tree
from cs_transformers.grading.withheld import WITHHELD, leaks, screen, solution_lines


def solutions() -> dict[str, str]:
    files = sorted({one.file for one in EXERCISES.values() if one.file})
    found = tree.read_answers(tree.PACKAGE, files).regions
    return {
        f"{file} {name}": region.body
        for file, regions in found.items()
        for name, region in regions.items()
        if name != "helpers"
    }


def longest_line(body: str) -> str:
    return max(body.split("#")[0].splitlines() or [""], key=len)


# Of a solution of a few short words nothing can be told from anybody's own.
TELLING = [place for place, body in solutions().items() if len("".join(longest_line(body).split())) >= 22]


@pytest.mark.parametrize("place", TELLING)
def test_a_whole_solution_in_a_message_is_withheld(place: str) -> None:
    body = solutions()[place]
    longest = longest_line(body)
    for hidden in (
        body,
        repr(body),
        f"ValueError: {longest.strip()}",
        body.replace("\n", "\\n"),
        f"  {longest}  # mine",
    ):
        assert screen([hidden]) == [WITHHELD]


@pytest.mark.parametrize(
    "sentence",
    [
        "values: scores[0, 0, 0, 0] is the first to differ: expected 0.25, got 0.5",
        "scores are divided by sqrt(embed_dim); divide by the square root of the head width",
        "attention.py, line 41: RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
        "torch.nn.functional.scaled_dot_product_attention does what exercise 1.3 asks you to write; write it yourself",
        "",
    ],
)
def test_what_checks_say_is_not_withheld(sentence: str) -> None:
    assert screen([sentence]) == [sentence]


def test_no_diagnosis_of_a_known_mistake_repeats_a_solution() -> None:
    from cs_transformers.checks.refresh import mistakes_of

    said = [mistake.diagnosis for id, one in EXERCISES.items() if one.parts for mistake in mistakes_of(id)]
    assert len(said) > 50
    assert not [sentence for sentence in said if leaks(sentence)]


def test_there_is_something_to_hide() -> None:
    assert len(solution_lines()) > 80
    assert len(TELLING) > 25
