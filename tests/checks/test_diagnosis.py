"""Diagnosis: a mistake is named when its numbers come out, two when both marks are there, and never by guessing."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np

from cs_transformers.checks.client import Answer
from cs_transformers.checks.diagnosis import Fingerprint, bears, diagnose, project, take

PARTS = ["values: split", "values: join", "gradients"]


def answer(split: float = 1.0, join: float = 1.0, gradients: float = 1.0) -> Answer:
    """Results that are the right ones times a factor, by part."""
    base = np.random.RandomState(0).standard_normal((3, 4))
    arrays = {f"{part}/x": base * factor for part, factor in zip(PARTS, (split, join, gradients), strict=True)}
    return Answer("answered", arrays=arrays, kinds=dict.fromkeys(arrays, "float64 tensor"))


def with_error(part: str, kind: str, message: str, **factors: float) -> Answer:
    one = answer(**factors)
    one.errors = [{"part": part, "type": kind, "bases": [kind], "message": message, "file": "", "line": 0}]
    del one.arrays[f"{part}/x"], one.kinds[f"{part}/x"]
    return one


RIGHT = answer()
SPLIT = take("split", "Split is wrong.", RIGHT, answer(split=2.0, gradients=2.0), PARTS)
JOIN = take("join", "Join is wrong.", RIGHT, answer(join=3.0), PARTS)
BOTH = [SPLIT, JOIN]


def test_a_fingerprint_covers_the_parts_that_the_mistake_changes() -> None:
    assert SPLIT.parts == {"values: split", "gradients"}
    assert JOIN.parts == {"values: join"}
    assert take("none", "", RIGHT, answer(), PARTS).parts == set()


def test_exactly_these_numbers_bear_the_mark() -> None:
    assert diagnose(BOTH, answer(split=2.0, gradients=2.0), PARTS[:1]) == [SPLIT]
    assert diagnose(BOTH, answer(split=2.0 + 1e-9, gradients=2.0), PARTS[:1]) == [SPLIT]


def test_other_wrong_numbers_are_not_explained() -> None:
    assert diagnose(BOTH, answer(split=2.001, gradients=2.001), PARTS[:1]) == []
    assert diagnose(BOTH, answer(split=2.0, gradients=2.5), PARTS[:1]) == []
    assert diagnose(BOTH, answer(split=-2.0, gradients=-2.0), PARTS[:1]) == []


def test_the_right_answer_bears_no_mark() -> None:
    assert not any(bears(mistake, answer()) for mistake in BOTH)


def test_two_mistakes_in_different_parts_are_both_named() -> None:
    assert diagnose(BOTH, answer(split=2.0, join=3.0, gradients=2.0), PARTS[:2]) == [SPLIT, JOIN]


def test_where_only_one_part_is_explained_only_that_one_is_named() -> None:
    assert diagnose(BOTH, answer(split=2.0, join=9.0, gradients=2.0), PARTS[:2]) == [SPLIT]


def test_later_parts_may_mix_two_mistakes_where_the_judged_ones_keep_them_apart() -> None:
    mixed = answer(split=2.0, join=3.0, gradients=6.0)
    assert diagnose(BOTH, mixed, PARTS[:2]) == [JOIN]
    assert diagnose(BOTH, mixed, PARTS[:2], judged=PARTS[:2]) == [SPLIT, JOIN]


def test_two_marks_that_only_later_parts_could_tell_apart_are_no_diagnosis() -> None:
    twin = take("twin", "Split is wrong in another way.", RIGHT, answer(split=2.0, gradients=5.0), PARTS)
    mixed = answer(split=2.0, gradients=6.0)
    assert diagnose([SPLIT, twin], mixed, PARTS[:1], judged=PARTS[:2]) == []
    assert diagnose([SPLIT, twin], answer(split=2.0, gradients=5.0), PARTS[:1], judged=PARTS[:2]) == [twin]


def test_beside_a_further_fault_the_only_mistake_that_gives_what_failed_first_is_named() -> None:
    """The softmax over the wrong axis and something else: later numbers are those of neither mistake."""
    both = take("both", "Both are wrong.", RIGHT, answer(split=2.0, join=5.0), PARTS)
    got = answer(split=2.0, join=7.0)
    assert diagnose([both, JOIN], got, PARTS[:2], judged=PARTS[:2]) == [both]
    assert diagnose([both, JOIN], answer(split=1.0, join=5.0), PARTS[1:2], judged=PARTS[:2]) == []
    twin = take("twin", "Both are wrong in another way.", RIGHT, answer(split=2.0, join=6.0), PARTS)
    assert diagnose([both, twin], got, PARTS[:2], judged=PARTS[:2]) == []


def test_an_error_alone_in_what_failed_first_is_known_by_its_text() -> None:
    later = with_error("values: split", "ValueError", "sizes 3 and 4 do not match", join=3.0)
    mark = take("later", "Something else is wrong.", RIGHT, later, PARTS)
    for text, found in (("sizes 3 and 4 do not match", [mark]), ("sizes 7 and 9 do not match", [])):
        got = with_error("values: split", "ValueError", text, join=8.0)
        assert diagnose([mark], got, PARTS[:2], judged=PARTS[:2]) == found


def test_a_permuted_array_of_the_same_numbers_is_another_array() -> None:
    one = answer()
    one.arrays["values: join/x"] = one.arrays["values: join/x"][::-1].copy()
    permuted = take("permuted", "", RIGHT, one, PARTS)
    assert permuted.parts == {"values: join"}
    assert bears(permuted, one)


def test_entries_that_are_not_finite_are_counted_by_kind() -> None:
    nan, inf = np.array([1.0, np.nan]), np.array([1.0, np.inf])
    assert project("k", nan)[1] == [1, 0, 0]
    assert project("k", inf)[1] == [0, 1, 0]
    assert project("k", -inf)[1] == [0, 0, 1]


def test_an_array_far_too_large_is_its_shape_and_costs_no_memory() -> None:
    huge = np.broadcast_to(np.float64(7), (1 << 20, 1 << 10))
    tracemalloc.start()
    found = project("k", huge)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [[1 << 20, 1 << 10], [0, 0, 0], 0.0, 0.0, 0.0, 0.0]
    assert peak < 1 << 20


def test_a_complex_array_has_a_print_without_a_warning() -> None:
    assert project("k", np.asarray([1 + 2j, 3 - 1j]))[:3] == [[2], [0, 0, 0], 4.0]


def test_an_error_without_numbers_is_known_by_its_text() -> None:
    mistake = take("m", "", RIGHT, with_error("values: join", "RuntimeError", "sizes 4 and 5"), PARTS)
    assert bears(mistake, with_error("values: join", "RuntimeError", "sizes 4  and\n5"))
    assert not bears(mistake, with_error("values: join", "RuntimeError", "sizes 4 and 6"))
    assert not bears(mistake, with_error("values: join", "TypeError", "sizes 4 and 5"))


def test_beside_numbers_the_text_of_an_error_does_not_count() -> None:
    mistake = take("m", "", RIGHT, with_error("values: join", "RuntimeError", "old words", split=2.0), PARTS)
    assert bears(mistake, with_error("values: join", "RuntimeError", "new words", split=2.0))
    assert not bears(mistake, with_error("values: join", "TypeError", "new words", split=2.0))
    assert not bears(mistake, answer(split=2.0))


def test_another_shape_or_kind_never_bears_the_mark() -> None:
    flat, kind = answer(join=3.0), answer(join=3.0)
    flat.arrays["values: join/x"] = flat.arrays["values: join/x"].ravel()
    kind.kinds["values: join/x"] = "float32 tensor"
    assert not bears(JOIN, flat)
    assert not bears(JOIN, kind)


def test_a_fingerprint_survives_json() -> None:
    again = Fingerprint.from_record(json.loads(json.dumps(SPLIT.to_record())))
    assert bears(again, answer(split=2.0, gradients=2.0))
    assert again == SPLIT
