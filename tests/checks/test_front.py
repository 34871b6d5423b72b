"""What a notebook sees: one line, never an exception, hints step by step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cs_transformers import checks
from cs_transformers.checks import EXERCISES, Verdict, front
from cs_transformers.checks.edition import Edition
from cs_transformers.checks.verdict import STATES


@pytest.fixture(autouse=True)
def _fresh_memory(monkeypatch: pytest.MonkeyPatch, runner, tmp_path: Path) -> None:
    monkeypatch.setattr(front, "_runner", runner)
    monkeypatch.setattr(front, "_last", {})
    monkeypatch.setattr(front, "_opened", {})
    monkeypatch.setattr(front, "OPENED", tmp_path / ".cst_hints.json")


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


def test_hints_come_one_by_one_and_after_the_last_one_is_told_how_to_see_one_again(capsys) -> None:
    for _ in range(5):
        checks.hint("1.1")
    *hints, told, again = capsys.readouterr().out.splitlines()
    assert [re.search(r"hint (\d) of 3", line)[1] for line in hints] == ["1", "2", "3"]
    assert told == again == '1.1 attention_scores: these were all 3 hints; hint("1.1", 2) shows one again'
    checks.hint("1.1", 2)
    assert capsys.readouterr().out.splitlines() == hints[1:2]


def test_how_many_hints_were_read_outlives_the_process(monkeypatch) -> None:
    seen = []
    for id in ("1.1", "1.2", "1.1", "1.1"):
        monkeypatch.setattr(front, "_opened", {})  # what a new process begins with
        seen.append(re.search(r"hint (\d) of 3", checks.next_hint(id))[1])
    assert seen == ["1", "1", "2", "3"]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[1]", b"null", b'{"1.1": "2", "1.2": -1, "1.3": 99, "7": 1}', b"[" * 100_000]
)
def test_a_damaged_count_of_hints_counts_as_empty_and_is_written_anew(content: bytes) -> None:
    front.OPENED.write_bytes(content)
    assert "hint 1 of 3" in checks.next_hint("1.1")
    assert json.loads(front.OPENED.read_text(encoding="utf-8"))["1.1"] == 1


def test_where_nothing_can_be_written_the_process_remembers(monkeypatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError("read only")

    monkeypatch.setattr(front, "replace_file", refuse)
    assert [re.search(r"hint (\d)", checks.next_hint("1.1"))[1] for _ in range(2)] == ["1", "2"]


def test_exercises_are_asked_for_by_id_or_by_notebook_and_come_once() -> None:
    of_the_second = ["2.1", "2.2", "2.3"]
    assert checks.ids_of(["02"]) == checks.ids_of([" 2 "]) == of_the_second
    assert checks.ids_of(["2.2", "1.1", "2"]) == ["2.2", "1.1", "2.1", "2.3"]
    with pytest.raises(ValueError, match=r"expected an exercise such as 1\.1, .*got '01\.99'"):
        checks.ids_of(["01.99"])


def test_a_notebook_of_which_nothing_is_asked_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(front.edition, "load", lambda _: Edition(id="x", notebooks=("01",), open=("1.1", "1.4")))
    assert checks.ids_of(["1"]) == ["1.1", "1.4"]
    with pytest.raises(ValueError, match="expected a notebook with exercises to write, such as 01, got '02'"):
        checks.ids_of(["02"])


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
