"""What a notebook sees: one line, never an exception, hints step by step."""

from __future__ import annotations

import re

import pytest

from cs_transformers import checks
from cs_transformers.checks import EXERCISES, Verdict, front
from cs_transformers.checks.verdict import STATES


@pytest.fixture(autouse=True)
def _fresh_memory(monkeypatch: pytest.MonkeyPatch, runner) -> None:
    monkeypatch.setattr(front, "_runner", runner)
    monkeypatch.setattr(front, "_last", {})
    monkeypatch.setattr(front, "_opened", {})


def test_a_check_prints_one_verdict_without_a_number_that_could_differ(capsys) -> None:
    assert checks.check("1.6") is None
    assert capsys.readouterr().out == "1.6 MultiHeadAttention.forward: passed (4 of 4 points)\n"


def test_blanks_around_an_id_do_not_matter(capsys) -> None:
    checks.check(" 1.4 ")
    assert capsys.readouterr().out.startswith("1.4 causal_mask: passed")


def test_details_list_the_parts(capsys) -> None:
    checks.check("1.4", details=True)
    assert "      passed  values: the device asked for\n" in capsys.readouterr().out


def wrong(id: str, **fields: object) -> Verdict:
    return Verdict(id, EXERCISES[id].symbol, "wrong", out_of=3, **fields)


def test_details_show_what_was_printed_and_what_was_not_judged(capsys, monkeypatch, runner) -> None:
    verdict = wrong("1.1", parts={"values": False, "gradients": None}, output="here\n", lines=["values: off"])
    monkeypatch.setattr(type(runner), "verdict", lambda *_: verdict)
    checks.check("1.1", details=True)
    out = capsys.readouterr().out
    assert out.startswith("1.1 attention_scores: wrong (0 of 3 points)\n  values: off\n")
    assert "  not passed  values\n  not judged  gradients\n" in out
    assert out.endswith("your code printed:\nhere\n\n")


def test_a_wrong_answer_that_was_not_changed_since_the_last_check_is_said_to_be_so(capsys, monkeypatch, runner) -> None:
    monkeypatch.setattr(type(runner), "verdict", lambda *_: wrong("1.1"))
    checks.check("1.1")
    assert "save the file" not in capsys.readouterr().out
    checks.check("1.1")
    assert (
        "attention.py is as it was at the last check; save the file first if you changed it" in capsys.readouterr().out
    )


def test_a_right_answer_is_never_said_to_be_unsaved(capsys) -> None:
    checks.check("1.4")
    checks.check("1.4")
    assert "save" not in capsys.readouterr().out


def test_an_unknown_id_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"got '9\.9'"):
        checks.check("9.9")
    with pytest.raises(TypeError, match="write it in quotes"):
        checks.check(1.1)


def test_hints_come_one_by_one_and_the_last_one_stays(capsys) -> None:
    for _ in range(4):
        checks.hint("1.1")
    lines = capsys.readouterr().out.splitlines()
    assert [re.search(r"hint (\d) of 3", line)[1] for line in lines] == ["1", "2", "3", "3"]
    assert len(set(lines)) == 3


def test_a_step_can_be_asked_for_and_counts_as_opened(capsys) -> None:
    checks.hint("1.2", 2)
    checks.hint("1.2")
    assert [re.search(r"hint (\d)", line)[1] for line in capsys.readouterr().out.splitlines()] == ["2", "3"]


@pytest.mark.parametrize("step", [0, 4, -1])
def test_a_step_that_does_not_exist_is_refused(step: int) -> None:
    with pytest.raises(ValueError, match=rf"hint: expected a step from 1 to 3, got {step}"):
        checks.hint("1.1", step)


def test_all_exercises_of_some_notebooks_run_in_order_with_progress() -> None:
    seen: list[str] = []
    verdicts = checks.run_all(["02", 3], progress=lambda verdict: seen.append(verdict.id))
    assert [verdict.id for verdict in verdicts] == seen == ["2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "3.4", "3.5"]
    assert all(verdict.passed for verdict in verdicts)
    assert checks.report(verdicts).splitlines()[-1] == "22 of 22 points"


def test_an_unknown_notebook_is_refused() -> None:
    with pytest.raises(ValueError, match=r"run_all: expected numbers of notebooks from 01, .*got '77'"):
        checks.run_all(["77"])


def test_the_report_lines_up_states_points_and_texts() -> None:
    verdicts = [
        Verdict("1.1", "attention_scores", "passed", 3, 3),
        Verdict("1.3", "scaled_dot_product_attention", "blocked", 0, 2, detail="by 1.2"),
        Verdict("6.2", "ViT against CNN on small data", "awaiting review", review=4),
    ]
    assert checks.report(verdicts).splitlines() == [
        "  1.1  attention_scores               passed             3 of 3",
        "  1.3  scaled_dot_product_attention   blocked by 1.2     0 of 2",
        "  6.2  ViT against CNN on small data  awaiting review   -        + 4 for the text",
        "3 of 5 points, 4 more for texts, given by a person",
    ]


def test_no_verdict_line_has_a_raw_float() -> None:
    for state in STATES:
        line = Verdict("1.1", "attention_scores", state, 1, 3, detail="by 1.2").line()
        assert not re.search(r"\d\.\d{2,}|e-\d", line)
