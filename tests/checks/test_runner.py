"""Verdicts on a student's copy: not attempted, blocked, forbidden, located errors, and what is remembered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.client import Answer, Worker
from cs_transformers.checks.exchange import BUSY, LOOP
from cs_transformers.checks.forbidden import forbidden_use
from cs_transformers.checks.markers import read_source
from cs_transformers.checks.registry import AUTOGRAD, TORCH_ATTENTION
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.tree import pristine_sources
from cs_transformers.course.editions import write_edition


class Student:
    """A student edition that a test writes answers into."""

    def __init__(self, home: Path, worker: Worker) -> None:
        self.home, self.package = home, home / "cs_transformers"
        self.runner = Runner(package=self.package, worker=worker)

    def write(self, file: str, name: str, body: str) -> None:
        path = self.package / file
        text = read_source(path)
        start = text.index(f"### BEGIN ANSWER {name}\n")
        indent = text[:start].rpartition("\n")[2]
        first = text.index("\n", start) + 1
        end = text.index(f"{indent}### END ANSWER {name}", start)
        lines = "".join(f"{indent}{line}\n" if line else "\n" for line in body.strip("\n").split("\n"))
        path.write_text(text[:first] + lines + text[end:], encoding="utf-8")

    def solve(self, solved, *ids: str) -> None:
        for id in ids:
            one = EXERCISES[id]
            for name, region in solved.of(one.file, id).items():
                body = "\n".join(line.removeprefix(region.indent) for line in region.body.splitlines())
                self.write(one.file, name, body)


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_edition(tmp_path_factory.mktemp("editions") / "work")


@pytest.fixture
def student(edition: Path, tmp_path: Path, worker: Worker) -> Student:
    shutil.copytree(edition, tmp_path / "work")
    return Student(tmp_path / "work", worker)


def test_a_stub_is_not_attempted(student: Student) -> None:
    verdict = student.runner.verdict("1.1")
    assert str(verdict) == "1.1 attention_scores: not attempted (0 of 3 points)"


def test_a_stub_whose_needs_are_stubs_too_is_not_attempted(student: Student) -> None:
    assert student.runner.verdict("1.6").state == "not attempted"


def test_an_answer_whose_needs_are_missing_is_blocked_by_the_first_of_them(student: Student, solved) -> None:
    student.solve(solved, "1.3", "1.1")
    verdict = student.runner.verdict("1.3")
    assert verdict.line() == "1.3 scaled_dot_product_attention: blocked by 1.2 (0 of 2 points)"
    assert 'check("1.2")' in verdict.lines[0]


def test_the_solution_written_into_the_stubs_passes(student: Student, solved) -> None:
    student.solve(solved, "1.1", "1.2", "1.3")
    verdict = student.runner.verdict("1.3")
    assert str(verdict) == "1.3 scaled_dot_product_attention: passed (2 of 2 points)"


def test_a_known_mistake_is_named_in_the_student_edition_too(student: Student) -> None:
    assert not (student.package / "checks" / "mistakes").exists()
    student.write("attention.py", "1.1", "return query @ key.transpose(-2, -1)")
    verdict = student.runner.verdict("1.1")
    assert verdict.lines[0].startswith("The scores are not scaled")
    assert verdict.lines[-1] == 'hint("1.1") says more, one step at a time'


def test_passed_needs_are_not_run_again_until_they_change(student: Student, solved, monkeypatch) -> None:
    student.solve(solved, "1.1", "1.2", "1.3")
    ran: list[str] = []
    verdict_on = Runner.verdict_on
    monkeypatch.setattr(
        Runner, "verdict_on", lambda self, one, answers: ran.append(one.id) or verdict_on(self, one, answers)
    )
    student.runner.verdict("1.3")
    student.runner.verdict("1.3")
    assert ran == ["1.1", "1.2", "1.3", "1.3"]
    student.write("attention.py", "1.1", "return query @ key.transpose(-2, -1)")
    assert student.runner.verdict("1.3").detail == "by 1.1"
    assert ran[4:] == ["1.1"]


def test_an_error_is_located_in_the_students_file(student: Student) -> None:
    path = student.package / "attention.py"
    path.write_text("# one line more\n" + read_source(path), encoding="utf-8")
    student.write("attention.py", "1.1", "scale = 2\nreturn query @ key.transposed(1)")
    line = next(n for n, text in enumerate(read_source(path).splitlines(), start=1) if "transposed(" in text)
    verdict = student.runner.verdict("1.1")
    assert verdict.state == "wrong"
    assert (
        f"AttributeError: 'Tensor' object has no attribute 'transposed' (attention.py, line {line})" in verdict.lines[0]
    )


@pytest.mark.parametrize("why", [LOOP, BUSY])
def test_time_that_is_up_is_told_with_the_reason(why: str, bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(bench.runner.worker), "run", lambda *_: Answer("timeout", why))
    verdict = bench.verdict("1.1")
    assert (verdict.state, verdict.detail, verdict.points) == ("stopped", "timeout", 0)
    assert verdict.lines == [f"stopped: it did not end within 20 seconds; {why}"]


def test_a_breakpoint_is_told_with_its_place(student: Student) -> None:
    student.write("attention.py", "1.4", "breakpoint()\nreturn None")
    verdict = student.runner.verdict("1.4")
    assert "a breakpoint stops it (attention.py, line " in verdict.lines[0]
    assert "remove the breakpoint" in verdict.lines[0]


def test_a_syntax_error_is_located_and_costs_only_its_own_exercise(student: Student, solved) -> None:
    student.solve(solved, "1.4")
    student.write("attention.py", "1.1", "return query @ (key")
    path = student.package / "attention.py"
    line = next(n for n, text in enumerate(read_source(path).splitlines(), start=1) if "@ (key" in text)
    verdict = student.runner.verdict("1.1")
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert verdict.lines == [f"attention.py, line {line}: not valid Python ('(' was never closed)"]
    assert student.runner.verdict("1.4").passed


def test_an_answer_that_leaves_its_function_is_refused(student: Student) -> None:
    path = student.package / "attention.py"
    text = read_source(path)
    stub = '    raise NotImplementedError("exercise 1.1 is not written yet")'
    path.write_text(text.replace(stub, "    return 1\nattention_weights = None"), encoding="utf-8")
    assert "leaves its function" in student.runner.verdict("1.1").lines[0]


@pytest.mark.parametrize("change", ["    ### BEGIN ANSWER 1.1\n", "    ### END ANSWER 1.1\n"])
def test_a_lost_marker_is_named_with_file_and_line(student: Student, change: str) -> None:
    path = student.package / "attention.py"
    path.write_text(read_source(path).replace(change, ""), encoding="utf-8")
    verdict = student.runner.verdict("1.1")
    assert verdict.state == "wrong"
    assert verdict.lines[0].startswith("attention.py, line ")
    assert "restore" in verdict.lines[0] or "close that one first" in verdict.lines[0]


def test_a_lost_region_is_named(student: Student) -> None:
    path = student.package / "attention.py"
    text = read_source(path)
    start, end = text.index("    ### BEGIN ANSWER 1.4"), text.index("    ### END ANSWER 1.4\n")
    path.write_text(
        text[:start] + "    return None\n" + text[end + len("    ### END ANSWER 1.4\n") :], encoding="utf-8"
    )
    assert student.runner.verdict("1.4").lines == [
        "attention.py: the region of exercise 1.4 is missing; restore its marker lines"
    ]


@pytest.mark.parametrize("half", ["split_heads", "join_heads"])
def test_half_an_exercise_deleted_is_never_filled_with_the_solution(student: Student, solved, half: str) -> None:
    student.solve(solved, "1.5")
    path = student.package / "attention.py"
    text = read_source(path)
    start, end = text.index(f"    ### BEGIN ANSWER 1.5 {half}"), text.index(f"    ### END ANSWER 1.5 {half}\n")
    path.write_text(text[:start] + text[end:].partition("\n")[2], encoding="utf-8")
    graded = Runner(package=student.package, worker=student.runner.worker, sources=pristine_sources())
    verdict = graded.verdict("1.5")
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert verdict.lines == [f"attention.py: the region of exercise 1.5 {half} is missing; restore its marker lines"]


def test_line_ends_and_marks_of_an_editor_change_nothing(student: Student, solved) -> None:
    student.solve(solved, "1.1")
    path = student.package / "attention.py"
    path.write_bytes(read_source(path).replace("\n", "\r\n").encode("utf-8-sig"))
    assert student.runner.verdict("1.1").passed


def test_own_helpers_travel_with_the_answer(student: Student) -> None:
    student.write(
        "attention.py", "helpers", "from math import sqrt as root\n\n\ndef flip(x):\n    return x.transpose(-2, -1)"
    )
    student.write("attention.py", "1.1", "return query @ flip(key) / root(query.shape[-1])")
    assert student.runner.verdict("1.1").passed


def test_helpers_that_do_not_import_are_left_out_and_reported(student: Student, solved) -> None:
    student.solve(solved, "1.1")
    student.write("attention.py", "helpers", "import a_module_that_nobody_has")
    verdict = student.runner.verdict("1.1")
    assert verdict.passed
    assert verdict.lines == ["attention.py: your helpers region could not be imported and was left out"]


@pytest.mark.parametrize(
    ("body", "helpers"),
    [
        ("return F.scaled_dot_product_attention(query, key, value, mask, dropout_p)", None),
        ("return torch.nn.functional.scaled_dot_product_attention(query, key, value)", None),
        ("from torch.nn.functional import scaled_dot_product_attention as a\nreturn a(query, key, value)", None),
        ("return getattr(F, 'scaled_dot_product_attention')(query, key, value)", None),
        ("return mine(query, key, value)", "from torch.nn.functional import scaled_dot_product_attention as mine"),
        ("return nn.MultiheadAttention(6, 1)(query, key, value)[0]", None),
    ],
)
def test_torchs_own_attention_is_a_forbidden_call_wherever_it_hides(
    student: Student, solved, body: str, helpers: str | None
) -> None:
    student.solve(solved, "1.1", "1.2")
    student.write("attention.py", "1.3", body)
    if helpers:
        student.write("attention.py", "helpers", helpers)
    verdict = (
        student.runner.verdict("1.3")
        if not helpers
        else student.runner.verdict_on(EXERCISES["1.3"], student.runner._answers(["1.3"]))
    )
    assert verdict.state == "forbidden call"
    assert verdict.points == 0
    assert "does what exercise 1.3 asks you to write" in verdict.lines[0]


def test_a_call_that_no_text_shows_is_caught_while_it_runs(student: Student, solved) -> None:
    student.solve(solved, "1.1", "1.2")
    student.write(
        "attention.py", "1.3", "name = 'scaled_dot' + '_product_attention'\nreturn vars(F)[name](query, key, value)"
    )
    assert student.runner.verdict("1.3").state == "forbidden call"


def test_autograd_is_forbidden_where_the_backward_is_written_by_hand(student: Student, solved) -> None:
    student.solve(solved, "1.1", "1.2")
    student.write(
        "attention.py", "1.8", "q = query.detach().requires_grad_()\nq.sum().backward()\nreturn q.grad, q.grad, q.grad"
    )
    assert "torch.Tensor.backward" in student.runner.verdict("1.8").lines[0]


def test_the_courses_own_attention_is_not_forbidden() -> None:
    assert forbidden_use("return scaled_dot_product_attention(q, k, v)\n", TORCH_ATTENTION) is None
    assert forbidden_use("from .attention import scaled_dot_product_attention\n", TORCH_ATTENTION) is None
    assert forbidden_use("x = 1\ny = q.backward()\n", AUTOGRAD) == (2, "torch.Tensor.backward")
    assert forbidden_use("return attention_flops(1, 2, 3, 4)\n", ("attention_flops",)) == (1, "attention_flops")
    assert forbidden_use("return (\n", TORCH_ATTENTION) is None


def test_half_of_an_exercise_earns_its_half(student: Student, solved) -> None:
    region = solved.regions["attention.py"]["1.5 join_heads"]
    student.write("attention.py", "1.5 join_heads", "\n".join(line.strip() for line in region.body.splitlines()))
    verdict = student.runner.verdict("1.5")
    assert verdict.state == "partly"
    assert verdict.points == 1
    assert "exercise 1.5 split_heads is not written yet" in verdict.lines[0]


def test_a_text_is_not_attempted_until_it_is_written_and_then_awaits_review(student: Student) -> None:
    assert student.runner.verdict("6.2").line() == "6.2 ViT against CNN on small data: not attempted"
    (student.home / "answers").mkdir()
    (student.home / "answers" / "6.2.md").write_text("*Your answer, in one to five sentences.*\n", encoding="utf-8")
    assert student.runner.verdict("6.2").state == "not attempted"
    (student.home / "answers" / "6.2.md").write_text("A CNN knows that pixels have neighbours.", encoding="utf-8")
    assert student.runner.verdict("6.2").state == "awaiting review"


def test_a_question_of_both_kinds_says_what_awaits_review(student: Student, solved) -> None:
    student.solve(solved, "6.3")
    assert student.runner.verdict("6.3").line() == (
        "6.3 cost_ratios and a reason: passed (2 of 2 points), 1 more for the text, awaiting review"
    )


def test_a_damaged_reference_says_how_to_mend_it(student: Student, solved, monkeypatch, tmp_path: Path) -> None:
    from cs_transformers.checks import references

    (tmp_path / "1_1.npz").write_bytes(b"not a zip")
    load = references.load
    monkeypatch.setattr(references, "load", lambda id: load(id, tmp_path))
    student.solve(solved, "1.1")
    verdict = student.runner.verdict("1.1")
    assert verdict.state == "stopped"
    assert "expected a readable 1_1.npz" in verdict.lines[0]
    assert "cst refresh 1.1" in verdict.lines[0]
