"""A whole class through `cst grade`: right verdicts for everybody, whatever was handed in and however it came."""

from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from classes import FORMS, QUICK, RIGHT, STUB, Author, Pupil, pupils, write_class, zipped
from runs import verdicts
from typer.testing import CliRunner

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.refresh import mistakes_of
from cs_transformers.cli import app
from cs_transformers.grading import explain, run, work
from cs_transformers.grading.explain import changes, explain_verdict
from cs_transformers.grading.journal import Journal
from cs_transformers.grading.judging import Judge
from cs_transformers.grading.model import Classroom, Person, Student
from cs_transformers.grading.sandbox import SandboxError
from cs_transformers.grading.work import Workshop

SAMPLE = ["1.1", "1.4", "1.5", "2.2"]


@pytest.fixture(scope="module")
def author() -> Author:
    return Author()


def gradebook(grades: Path) -> dict[str, dict[str, str]]:
    """Rows of the gradebook by id."""
    lines = (grades / "gradebook.csv").read_text(encoding="utf-8-sig").splitlines()
    return {row["id"]: row for row in csv.DictReader(lines)}


def check_class(classroom: Classroom, people: list[Pupil], exercises: list[str]) -> None:
    """Every pupil has exactly the verdicts that what they know deserves."""
    assert classroom.exercises == [id for id in EXERCISES if id in exercises]
    assert not classroom.ungraded
    for pupil in people:
        records = classroom.students[pupil.id].records
        for id in exercises:
            known, record = pupil.knows.get(id, STUB), records[id]
            where = (pupil.id, pupil.form, id, record.state, record.lines)
            if known == RIGHT:
                assert (record.state, record.points) == ("passed", record.out_of), where
            elif known == STUB:
                assert (record.state, record.points) == ("not attempted", 0), where
            else:
                assert record.state in ("wrong", "partly"), where
                assert record.points < record.out_of, where
                assert record.diagnosis == (known.diagnosis,), where


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, author: Author) -> tuple[Path, list[Pupil], Classroom]:
    """One pupil of each form, graded on a few exercises."""
    folder = tmp_path_factory.mktemp("run")
    people = pupils(len(FORMS), exercises=SAMPLE)
    roster = write_class(folder / "class", people, author)
    seen: list[tuple[int, int, str]] = []
    classroom = run.grade(
        folder / "class", folder / "grades", only=SAMPLE, nbval=False, roster=roster, jobs=2,
        progress=lambda *step: seen.append(step),
    )  # fmt: skip
    done = [step[0] for step in seen]
    assert done == sorted(done), "the progress bar never goes back"
    assert done[-1] == seen[-1][1] == len(people) * len(SAMPLE)
    return folder, people, classroom


def test_a_class_of_every_form_gets_the_verdicts_it_deserves(graded: tuple) -> None:
    _, people, classroom = graded
    check_class(classroom, people, SAMPLE)


def test_absent_people_have_a_row_and_no_verdict(graded: tuple) -> None:
    folder, people, classroom = graded
    assert list(classroom.students) == [*(pupil.id for pupil in people), "s999"]
    assert classroom.students["s999"].submission is None
    assert list(gradebook(folder / "grades")) == list(classroom.students)


def test_every_result_of_the_contract_is_written(graded: tuple) -> None:
    folder, people, _ = graded
    grades = folder / "grades"
    for name in ("journal.jsonl", "gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv", "report.html",
                 "feedback.zip", "log.txt"):  # fmt: skip
        assert (grades / name).stat().st_size > 0, name
    for pupil in people:
        assert json.loads((grades / "results" / f"{pupil.id}.json").read_text(encoding="utf-8"))["tests"]
        assert (grades / "feedback" / f"{pupil.id}.html").is_file()
    log = (grades / "log.txt").read_text(encoding="utf-8")
    assert "the marker lines of 1.1 were lost" in log
    assert f"{len(people) + 1} people, {len(people) * len(SAMPLE)} verdicts" in log


def test_the_first_line_of_the_journal_sets_the_run_up(graded: tuple) -> None:
    first = json.loads((graded[0] / "grades" / "journal.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["kind"] == "run"
    assert len(bytes.fromhex(first["key"])) == 16
    assert {"python", "torch", "numpy", "course"} <= set(first["versions"])
    assert first["graded"] == SAMPLE


def test_loading_gives_the_class_again_and_writing_gives_the_same_bytes(graded: tuple, tmp_path: Path) -> None:
    folder, _, classroom = graded
    again = run.load(folder / "grades")
    assert list(again.students) == list(classroom.students)
    run.write_results(again, tmp_path)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        assert path.read_bytes() == (folder / "grades" / path.relative_to(tmp_path)).read_bytes(), path


def test_resuming_a_whole_run_grades_nothing_again(graded: tuple) -> None:
    folder, people, _ = graded
    before = (folder / "grades" / "journal.jsonl").read_text(encoding="utf-8").count('"kind": "record"')
    book = (folder / "grades" / "gradebook.csv").read_bytes()
    roster = folder / "class.csv"
    run.grade(folder / "class", folder / "grades", only=SAMPLE, nbval=False, roster=roster, resume=True)
    after = (folder / "grades" / "journal.jsonl").read_text(encoding="utf-8").count('"kind": "record"')
    assert before == after == len(people) * len(SAMPLE)
    assert (folder / "grades" / "gradebook.csv").read_bytes() == book


def test_a_run_is_not_written_over(graded: tuple) -> None:
    with pytest.raises(ValueError, match="pass --resume to go on with it"):
        run.grade(graded[0] / "class", graded[0] / "grades", only=SAMPLE, nbval=False)


@pytest.mark.parametrize("place", ["submissions", "submissions/jane", "elsewhere"])
def test_a_folder_of_submissions_that_no_run_wrote_is_never_replaced(tmp_path: Path, place: str) -> None:
    for folder in ("submissions", "elsewhere"):
        (tmp_path / folder / "jane").mkdir(parents=True)
        (tmp_path / folder / "jane" / "vit.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="whose folder submissions no run wrote; name a new folder"):
        run.grade(tmp_path / place, tmp_path, nbval=False)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["vit.py", "vit.py"]


def test_what_cannot_be_graded_leaves_no_run_behind(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "class" / "jane").mkdir(parents=True)
    for submissions in ("absent", "empty"):
        with pytest.raises(ValueError, match="must be a folder or a zip of what was handed in"):
            run.grade(tmp_path / submissions, tmp_path / "grades", nbval=False)
    with pytest.raises(ValueError, match="roster"):
        run.grade(tmp_path / "class", tmp_path / "grades", nbval=False, roster=tmp_path / "no.csv")
    assert not (tmp_path / "grades").exists()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped; the same command with --resume goes on"),
        (OSError(errno.ENOSPC, "No space left on device"), 3, "left on device; mend it, then the same command"),
        (SandboxError("no sandbox here"), 3, "cst: no sandbox here"),
    ],
)
def test_a_run_that_breaks_off_says_how_it_goes_on(
    error: BaseException, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run, "grade", breaks)
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["grade", str(tmp_path), "--no-nbval"])
    assert result.exit_code == code
    assert said in result.output


def test_a_place_that_cannot_be_written_to_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "class" / "jane").mkdir(parents=True)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(PermissionError, match=r"cst grade: cannot write in .*grades .*choose a folder"):
        run.grade(tmp_path / "class", tmp_path / "file" / "grades", nbval=False)


def test_a_run_of_a_course_with_other_exercises_goes_on_with_those_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "class" / "jane").mkdir(parents=True)
    with Journal(tmp_path / "grades" / "journal.jsonl") as kept:
        kept.write("run", {"key": "00", "graded": ["0.9", "1.4"]})

    def begins(_journal: Journal, _out: Path, graded: list[str], *_: object) -> None:
        raise KeyboardInterrupt(graded)

    monkeypatch.setattr(run, "_Run", begins)
    with pytest.raises(KeyboardInterrupt) as begun:
        run.grade(tmp_path / "class", tmp_path / "grades", nbval=False, resume=True)
    assert begun.value.args == (["1.4"],)


def test_a_verdict_can_be_explained_and_comes_out_again(graded: tuple) -> None:
    folder, people, _ = graded
    wrong = next(pupil for pupil in people if not isinstance(pupil.knows[SAMPLE[3]], str))
    found = explain_verdict(folder / "grades", wrong.id, SAMPLE[3])
    assert found.same
    assert not found.moved
    assert found.again.diagnosis == (wrong.knows[SAMPLE[3]].diagnosis,)
    assert list(found.code) == [SAMPLE[3]]
    with pytest.raises(ValueError, match="expected an id of the class such as s000"):
        explain_verdict(folder / "grades", "nobody", "1.1")
    with pytest.raises(ValueError, match="expected somebody who handed in, got s999"):
        explain_verdict(folder / "grades", "s999", "1.1")
    with pytest.raises(ValueError, match=r"expected an exercise that this run graded \(.*1\.4.*\), got 3\.5"):
        explain_verdict(folder / "grades", wrong.id, "3.5")
    with pytest.raises(ValueError, match="of a run"):
        explain_verdict(folder / "class", "s000", "1.1")


def test_an_id_is_found_in_letters_of_any_case_where_only_one_fits() -> None:
    people = {id: Student(Person(id)) for id in ("ada", "s1x", "S1X")}
    found = Classroom([], people)
    assert explain._student(found, " Ada ") is people["ada"]
    assert explain._student(found, "S1X") is people["S1X"]
    for unclear in ("S1x", "ad"):
        with pytest.raises(ValueError, match=f"expected an id of the class such as .*, got '{unclear}'"):
            explain._student(found, unclear)


def test_explaining_on_the_command_line_shows_the_code_and_the_reason(graded: tuple) -> None:
    folder, people, _ = graded
    wrong = next(pupil for pupil in people if not isinstance(pupil.knows[SAMPLE[3]], str))
    shown = CliRunner().invoke(app, ["explain", str(folder / "grades"), wrong.id.upper(), SAMPLE[3]])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(f"{wrong.id} {SAMPLE[3]}: ")
    assert wrong.knows[SAMPLE[3]].diagnosis in shown.output
    assert "the run says the same" in shown.output


def test_an_adjustment_counts_and_is_a_difference_between_runs(graded: tuple, tmp_path: Path) -> None:
    folder, people, classroom = graded
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "journal.jsonl").write_bytes((folder / "grades" / "journal.jsonl").read_bytes())
    row = f"{people[0].id},1.1,-1,late\n{people[1].id},,2,helped others\n"
    (copy / "adjustments.csv").write_text(f"student,exercise,points,reason\n{row}", encoding="utf-8")
    found = changes(classroom, run.load(copy))
    assert [(one.student, one.exercise, one.points) for one in found] == [
        (people[0].id, "1.1", -1.0), (people[1].id, "all", 2.0)
    ]  # fmt: skip
    shown = CliRunner().invoke(app, ["diff", str(folder / "grades"), str(copy)])
    assert "adjusted by -1" in shown.output
    assert "no mark has changed" in CliRunner().invoke(app, ["diff", str(copy), str(copy)]).output


def test_somebody_who_hands_in_again_is_graded_again_and_nobody_else(tmp_path: Path, author: Author) -> None:
    jane, kim = (Pupil(id, id, {"1.1": known}, "zip") for id, known in (("jane", STUB), ("kim", RIGHT)))
    (tmp_path / "in").mkdir()
    for pupil in (jane, kim):
        FORMS["zip"](author, pupil, tmp_path / "in")
    first = run.grade(tmp_path / "in", tmp_path / "grades", only=["1.1"], nbval=False)
    assert first.students["jane"].records["1.1"].state == "not attempted"
    jane.knows["1.1"] = RIGHT
    FORMS["zip"](author, jane, tmp_path / "in")
    again = run.grade(tmp_path / "in", tmp_path / "grades", nbval=False, resume=True)
    assert again.exercises == ["1.1"], "an option that is left out the second time widens nothing"
    second = run.grade(tmp_path / "in", tmp_path / "grades", only=["1.1", "1.4"], nbval=False, resume=True)
    assert second.students["jane"].records["1.1"].state == "passed"
    assert second.exercises == ["1.1", "1.4"]
    given = verdicts(tmp_path / "grades")
    assert given.count(("kim", "1.1")) == 1
    assert given.count(("jane", "1.1")) == 2
    assert [(one.student, one.exercise) for one in changes(first, second) if one.exercise == "1.1"] == [("jane", "1.1")]


def test_bad_deliveries_get_a_row_and_a_reason_and_cost_nobody_else(tmp_path: Path, author: Author) -> None:
    """Five submissions: a good one, an empty file, an endless loop, a dead process, a bad zip."""
    folder = tmp_path / "in"
    folder.mkdir()
    bodies = {"loop": "    while True:\n        pass\n", "dead": "    import os\n    os._exit(0)\n"}
    for id in ("good", "loop", "dead"):
        sources = author.sources(Pupil(id, id, {"1.4": RIGHT}, ""))
        text = sources["attention.py"]
        if id in bodies:
            start, end = text.index("### BEGIN ANSWER 1.4\n"), text.index("    ### END ANSWER 1.4")
            text = text[:start] + "### BEGIN ANSWER 1.4\n" + bodies[id] + text[end:]
        (folder / f"{id}.zip").write_bytes(zipped({"cs_transformers/attention.py": text.encode()}))
    (folder / "empty.zip").write_bytes(b"")
    (folder / "bad.zip").write_bytes(b"PK\x03\x04 this is no archive")
    result = CliRunner().invoke(
        app, ["grade", str(folder), "-o", str(tmp_path / "grades"), "--only", "1.4", "--no-nbval"]
    )
    assert result.exit_code == 3, result.output
    rows = gradebook(tmp_path / "grades")
    assert {id: (row["status"], row["automatic"]) for id, row in rows.items()} == {
        "bad": ("could not be graded", "0"), "dead": ("graded", "0"), "empty": ("could not be graded", "0"),
        "good": ("graded", "2"), "loop": ("graded", "0"),
    }  # fmt: skip
    classroom = run.load(tmp_path / "grades")
    assert set(classroom.ungraded) == {"bad", "empty"}
    states = {id: classroom.students[id].records["1.4"] for id in ("dead", "loop")}
    assert [(record.state, record.detail) for record in states.values()] == [
        ("stopped", "exited early"), ("stopped", "timeout"),
    ]  # fmt: skip


def test_a_fault_of_the_grader_is_tried_again_and_never_a_students_zero(
    tmp_path: Path, author: Author, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for id in ("jane", "kim"):
        FORMS["zip"](author, Pupil(id, id, dict.fromkeys(["1.1", "1.4"], RIGHT), ""), tmp_path / "in")
    real, failures = Judge.grade, {("jane", "1.1"): 1, ("kim", "1.4"): 99}

    def faulty(self: Judge, submission: object, id: str, passed: object = ()) -> object:
        place = (submission.person.id, id)
        if failures.get(place, 0) > 0:
            failures[place] -= 1
            raise SandboxError("the machine has a bad day")
        return real(self, submission, id, passed)

    monkeypatch.setattr(Judge, "grade", faulty)
    classroom = run.grade(tmp_path / "in", tmp_path / "grades", only=["1.1", "1.4"], nbval=False)
    assert classroom.students["jane"].records["1.1"].state == "passed"
    assert list(classroom.students["kim"].records) == ["1.1"]
    assert classroom.ungraded == {"kim": "1.4: SandboxError: the machine has a bad day"}
    monkeypatch.setattr(Judge, "grade", real)
    classroom = run.grade(tmp_path / "in", tmp_path / "grades", only=["1.1", "1.4"], nbval=False, resume=True)
    assert not classroom.ungraded
    assert classroom.students["kim"].records["1.4"].state == "passed"


def test_recipes_train_on_the_mended_tree_of_what_has_passed(author: Author) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    class Stub:
        grader_digest = "g"

        @property
        def sandbox(self) -> object:
            return self

        def grade(self, submission: object, id: str, passed: object = ()) -> object:
            asked.append((id, tuple(passed)))
            state = "wrong" if id == "1.4" else "passed"
            return run.Record(submission.person.id, id, state)

        def close(self) -> None:
            """Nothing to close."""

    workshop = Workshop(Stub)
    person = run.Person("s1")
    submission = run.Submission(person, 1, "x", "d", author.solved)
    workshop.perform(work.Task(submission, ("4.6", "1.1", "1.4"), ("1.2",), ("1.1", "1.4", "4.6")), lambda _: None)
    assert asked == [("1.1", ()), ("1.4", ()), ("4.6", ("1.1", "1.2"))]


def test_a_workshop_that_is_closed_under_way_gives_no_verdict_and_makes_no_judge(author: Author) -> None:
    made, kept = [], []

    class Ended:
        sandbox = property(lambda self: self)

        def __init__(self) -> None:
            made.append(self)

        def grade(self, submission: object, id: str) -> object:
            workshop.close()  # what its processes would give by now is a verdict on their end
            if id == "1.4":
                raise OSError("the worker is gone")
            return run.Record(submission.person.id, id, "stopped")

        def close(self) -> None:
            """Nothing to close."""

    submission = run.Submission(run.Person("s1"), 1, "x", "d", author.solved)
    for id in ("1.1", "1.4"):
        workshop = Workshop(Ended)
        workshop.perform(work.Task(submission, (id,), (), (id,)), kept.append)
    assert kept == []
    assert len(made) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": "in/grades"}, "inside of what was handed in"),
        ({"out": "file"}, "must be a folder, got"),
        ({"jobs": 0}, "jobs must be a positive whole number, got 0"),
        ({"only": ["9.99"]}, "expected an exercise such as"),
        ({"roster": Path("none.csv")}, "roster: expected a CSV file"),
        ({"submissions": "nothing"}, "which is not there"),
        ({"scheduler": "tcp://127.0.0.1:9"}, "--scheduler must be the address of a Dask scheduler"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, author: Author, arguments: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cs_transformers.grading.cluster.CONNECT_SECONDS", 1)
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    FORMS["zip"](author, Pupil("jane", "Jane", {}, ""), tmp_path / "in")
    given = {"submissions": "in", "out": "grades", "nbval": False, "only": ["1.1"], **arguments}
    submissions, out = tmp_path / given.pop("submissions"), tmp_path / given.pop("out")
    with pytest.raises(ValueError, match=message):
        run.grade(submissions, out, **given)


def test_the_command_without_submissions_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["grade", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "expected a folder or zip of submissions, got none" in result.output


def test_isolation_that_is_required_and_missing_stops_the_run(tmp_path: Path, author: Author) -> None:
    """In a machine where bubblewrap, namespaces and other users are out of reach, nothing is graded without them."""
    (tmp_path / "in").mkdir()
    FORMS["zip"](author, Pupil("jane", "Jane", {}, ""), tmp_path / "in")
    code = (
        "import sys\nfrom cs_transformers.grading import sandbox\n"
        "def refuse(*args, **kwargs): raise sandbox.SandboxError('missing: network')\n"
        "sandbox.Sandbox.__init__ = refuse\nfrom cs_transformers.cli import main\nmain()\n"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "grade",
        str(tmp_path / "in"),
        "-o",
        str(tmp_path / "out"),
        "--require-sandbox",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 3, done.stderr
    assert "missing: network" in done.stderr
    assert not (tmp_path / "out" / "gradebook.csv").exists()


@pytest.mark.slow
def test_a_class_of_sixty_on_every_quick_exercise(tmp_path: Path, author: Author) -> None:
    people = pupils(60)
    roster = write_class(tmp_path / "class", people, author)
    classroom = run.grade(tmp_path / "class", tmp_path / "grades", only=QUICK, nbval=False, roster=roster, jobs=2)
    check_class(classroom, people, QUICK)


@pytest.mark.slow
def test_the_reference_gets_everything_stubs_nothing_and_a_mistake_its_own_exercise_only(
    tmp_path: Path, author: Author
) -> None:
    """All automatic points for the solutions, none for stubs, and of every known mistake the rest stays whole."""
    (tmp_path / "in").mkdir()
    coded = [id for id, one in EXERCISES.items() if one.parts]
    right = dict.fromkeys(coded, RIGHT)
    people = [Pupil("right", "", right, ""), Pupil("stubs", "", {}, "")]
    rounds = max(len(mistakes_of(id)) for id in QUICK)
    for turn in range(rounds):  # one mistake of every exercise at a time would hide that others are touched
        for half in (0, 1):
            wrong = {id: mistakes_of(id)[turn] for id in QUICK[half::2] if turn < len(mistakes_of(id))}
            people.append(Pupil(f"wrong-{turn}-{half}", "", {**dict.fromkeys(QUICK, RIGHT), **wrong}, ""))
    for pupil in people:
        FORMS["zip"](author, pupil, tmp_path / "in")
    classroom = run.grade(tmp_path / "in", tmp_path / "grades", only=coded, nbval=False, jobs=2)
    check_class(classroom, people, coded)
    full = sum(sum(EXERCISES[id].parts.values()) for id in coded)
    assert (classroom.students["right"].automatic, classroom.students["stubs"].automatic) == (full, 0)
