"""Stages: order, what stops, who earns what."""

from __future__ import annotations

import numpy as np

from cs_transformers.checks.client import Answer
from cs_transformers.checks.stages import describe_error, examine, judge, points_of

PARTS = {"values: a": 1, "values: b": 2, "gradients": 1, "dropout": 0, "invariant: c": 3}


def answer(**changed: object) -> Answer:
    arrays = {f"{part}/x": np.arange(1.0, 4.0) for part in PARTS}
    kinds = dict.fromkeys(arrays, "float64 tensor")
    for key, value in changed.items():
        arrays[key] = value
    return Answer("answered", arrays=arrays, kinds=kinds)


RIGHT = answer()
OFF = np.array([1.0, 2.0, 3.5])


def error(part: str, kind: str = "RuntimeError", message: str = "boom") -> dict:
    return {"part": part, "type": kind, "bases": [kind], "message": message, "file": "attention.py", "line": 7}


def test_the_right_answer_passes_every_part() -> None:
    outcome = judge(PARTS, RIGHT, answer())
    assert all(outcome.parts.values())
    assert outcome.first is None
    assert points_of(PARTS, outcome) == 7


def test_parts_of_one_stage_are_judged_by_themselves() -> None:
    outcome = judge(PARTS, RIGHT, answer(**{"values: a/x": OFF}))
    later = {"gradients": None, "dropout": None, "invariant: c": None}
    assert outcome.parts == {"values: a": False, "values: b": True, **later}
    assert points_of(PARTS, outcome) == 2


def test_beside_the_part_that_bears_the_name_of_the_stage_no_other_passes_when_it_fails() -> None:
    parts = {"values": 1, "values: a": 1, "values: b": 1, "values: guard": 0, "gradients": 1}
    right = Answer("answered", arrays={f"{part}/x": np.arange(3.0) for part in parts})
    right.kinds = dict.fromkeys(right.arrays, "float64 tensor")
    changed = {**right.arrays, "values/x": OFF, "values: b/x": OFF}
    wrong = Answer("answered", arrays=changed, kinds=right.kinds)
    outcome = judge(parts, right, wrong)
    assert outcome.parts == {
        "values": False, "values: a": None, "values: b": False, "values: guard": None, "gradients": None,
    }  # fmt: skip
    assert [finding.part for finding in outcome.findings] == ["values", "values: b"], "both may bear a known mark"
    assert points_of(parts, outcome) == 0


def test_a_stage_counts_only_when_the_stages_before_it_pass() -> None:
    outcome = judge(PARTS, RIGHT, answer(**{"gradients/x": OFF}))
    assert [finding.part for finding in outcome.findings] == ["gradients"]
    assert not outcome.parts["invariant: c"]
    assert points_of(PARTS, outcome) == 3


def test_a_part_without_points_guards_the_part_before_it() -> None:
    outcome = judge(PARTS, RIGHT, answer(**{"dropout/x": OFF}))
    assert outcome.parts["gradients"]
    assert points_of(PARTS, outcome) == 3, "the point of the gradients falls with the dropout behind them"


def test_shape_alone_earns_nothing() -> None:
    outcome = judge(PARTS, RIGHT, answer(**{f"{part}/x": np.zeros(3) for part in PARTS}))
    assert points_of(PARTS, outcome) == 0


def test_shape_is_reported_before_values_of_an_earlier_array() -> None:
    expected, got = answer(), answer(**{"values: a/x": OFF})
    for one, shape in ((expected, 2), (got, 3)):
        one.arrays["values: a/y"], one.kinds["values: a/y"] = np.zeros(shape), "float64 tensor"
    finding = examine("values: a", expected, got)
    assert (finding.aspect, finding.sentence) == ("shape", "values: a: shape of y: expected (2,), got (3,)")


def test_gradients_are_compared_relative_to_the_largest_of_their_part() -> None:
    expected, got = answer(), answer()
    for one, tiny in ((expected, 1e-7), (got, 3e-7)):
        one.arrays["gradients/key.bias"], one.kinds["gradients/key.bias"] = np.full(2, tiny), "float64 tensor"
        one.arrays["values: a/tiny"], one.kinds["values: a/tiny"] = np.full(2, tiny), "float64 tensor"
    assert examine("gradients", expected, got) is None, "an exact zero but for rounding is no wrong gradient"
    assert examine("values: a", expected, got) is not None


def test_an_exception_fails_its_part_and_names_place_and_message() -> None:
    got = answer()
    got.errors = [error("values: b")]
    finding = examine("values: b", RIGHT, got)
    assert finding.sentence == "values: b: RuntimeError: boom (attention.py, line 7)"
    assert examine("values: a", RIGHT, got) is None


def test_an_exception_while_importing_fails_every_part() -> None:
    got = answer()
    got.errors = [error("import", "SyntaxError", "invalid syntax")]
    outcome = judge(PARTS, RIGHT, got)
    assert not any(outcome.parts.values())
    assert outcome.first.sentence == "SyntaxError: invalid syntax (attention.py, line 7)"


def test_a_missing_result_and_one_of_another_kind_are_findings_of_shape() -> None:
    missing, other = answer(), answer()
    del missing.arrays["values: a/x"], missing.kinds["values: a/x"]
    del other.arrays["values: a/x"]
    other.kinds["values: a/x"] = "NoneType"
    assert examine("values: a", RIGHT, missing).sentence.endswith("expected shape (3,), got no value")
    assert examine("values: a", RIGHT, other).sentence.endswith("expected shape (3,), got NoneType")


def test_texts_must_be_equal() -> None:
    expected, got = answer(), answer()
    for one, text in ((expected, "meta"), (got, "cpu")):
        one.texts["values: a/device"], one.kinds["values: a/device"] = text, "str"
    assert examine("values: a", expected, got).sentence.endswith("device: expected 'meta', got 'cpu'")


def test_a_part_without_a_stored_reference_never_passes() -> None:
    assert "refresh it" in examine("values: new", RIGHT, answer()).sentence


def test_a_breakpoint_that_was_left_is_told_to_be_removed() -> None:
    told = describe_error(error("values", "BdbQuit", ""))
    assert told == (
        "values: a breakpoint stops it (attention.py, line 7); a check has nobody to talk to: remove the breakpoint"
    )


def test_long_messages_are_cut_and_set_in_one_line() -> None:
    assert len(describe_error(error("values", message="a\n" * 5000))) < 400
    assert describe_error({**error("values", message=""), "file": ""}) == "values: RuntimeError"
