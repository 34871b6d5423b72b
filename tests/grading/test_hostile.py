"""Hostile answers: every verdict right, nobody else's result changed, no process and no file left behind."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hostile import HOSTILE, LEAK, RIGHT, WRONG, Hostile

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.confine import descendants
from cs_transformers.checks.markers import indented
from cs_transformers.checks.refresh import reference_answers
from cs_transformers.checks.tree import Answers
from cs_transformers.grading import sandbox as sandboxes
from cs_transformers.grading.judging import Judge
from cs_transformers.grading.model import Person, Record, Submission

SOLVED = reference_answers()
ALL = [pytest.param(one, id=one.name, marks=[] if one.quick else [pytest.mark.slow]) for one in HOSTILE]
MAGIC = 3.0 * 41521.25 + 0.5


@pytest.fixture(scope="module", autouse=True)
def _own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


class Ground:
    """A place with another submission, a journal and a listener, all of which must stay as they are."""

    def __init__(self, folder: Path, port: int) -> None:
        self.victim, self.journal, self.left = folder / "victim", folder / "journal.jsonl", Path("/tmp/cst-left-behind")
        self.victim.mkdir(mode=0o777)
        (self.victim / "attention.py").write_text("their work", encoding="utf-8")
        self.journal.write_text('{"student": "victim", "points": 3}\n', encoding="utf-8")
        for place in (folder, self.victim, self.victim / "attention.py", self.journal):
            place.chmod(0o777)
        self.places = {"victim": self.victim, "journal": self.journal, "left": self.left, "port": port,
                       "pid": os.getpid(), "package": Path(sandboxes.tree.PACKAGE)}  # fmt: skip

    def untouched(self) -> bool:
        theirs = (self.victim / "attention.py").read_text(encoding="utf-8"), sorted(os.listdir(self.victim))
        return theirs == ("their work", ["attention.py"]) and self.journal.read_text().count("\n") == 1


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield Ground(tmp_path, server.getsockname()[1])
        with pytest.raises(TimeoutError):
            server.accept()


def submission(bodies: dict[str, str], id: str = "1.1", *, alone: bool = False) -> Submission:
    file = EXERCISES[id].file
    regions = {} if alone else dict(SOLVED.regions[file])
    for name, body in bodies.items():
        place = SOLVED.regions[file][name]
        regions[name] = replace(place, body=indented(body, place.indent))
    others = {} if alone else {name: found for name, found in SOLVED.regions.items() if name != file}
    return Submission(Person("hostile"), 1, "hostile.zip", "digest", Answers({**others, file: regions}))


def read_by_students(record: Record) -> str:
    return " ".join([*record.lines, *record.diagnosis, str(record.picture), record.detail, record.stage])


def comparable(record: Record) -> dict:
    return {**asdict(record), "seconds": 0}


@pytest.mark.parametrize("one", ALL)
def test_a_hostile_answer_gets_its_verdict_and_leaves_nothing(
    one: Hostile, judge: Judge, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = [what for what in one.needs if not judge.sandbox.isolates(what)]
    if lacking:
        pytest.skip(f"the tier {judge.sandbox.tier} does not isolate {', '.join(lacking)}")
    honest = submission({"1.1": RIGHT})
    before = comparable(judge.grade(honest, "1.1"))
    processes, files = set(descendants(os.getpid())), _files()
    monkeypatch.setitem(EXERCISES, one.id, replace(EXERCISES[one.id], seconds=one.seconds))
    bodies = {one.region or one.id: one.filled(ground.places)} | ({"helpers": one.helpers} if one.helpers else {})
    record = judge.grade(submission(bodies, one.id, alone=one.alone), one.id)
    monkeypatch.undo()
    assert record.state in ((one.state,) if isinstance(one.state, str) else one.state), record
    assert record.points == one.points, record
    assert not one.detail or record.detail == one.detail, record
    assert re.search(one.says, " ".join((*record.lines, *record.diagnosis, record.incident))), record
    assert comparable(judge.grade(honest, "1.1")) == before
    assert _gone(processes), "a process was left behind"
    assert _files() <= files, "a file was left behind"
    assert ground.untouched()
    assert not ground.left.exists()


def _gone(processes: set[int]) -> bool:
    """Whether, in a moment, no process is below this one that was not there before."""
    deadline = time.monotonic() + 10
    while set(descendants(os.getpid())) - processes and time.monotonic() < deadline:
        time.sleep(0.02)
    return set(descendants(os.getpid())) <= processes


def _files() -> set[str]:
    """What lies in this process's folder of temporary files, and its trees in memory."""
    shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    trees = {name for name in shared if name.startswith("cst-tree-") and f"-{os.getpid()}-" in name}
    return trees | set(os.listdir(tempfile.gettempdir()))


@pytest.mark.parametrize("one", [param for param in ALL if "{leak}" in param.values[0].code])
def test_no_line_of_a_solution_reaches_a_student(one: Hostile, judge: Judge) -> None:
    record = judge.grade(submission({one.id: one.filled()}, one.id, alone=True), one.id)
    assert record.state == "wrong"
    shown = read_by_students(record)
    solution = SOLVED.regions["attention.py"]["1.6"].body
    lines = [line.strip() for line in solution.splitlines() if len(line.strip()) > 10]
    assert lines
    assert not [line for line in lines if line in shown]
    codes = [float(code) for code in solution.encode()[-300:]]
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", shown)]
    assert not any(numbers[start : start + 5] == codes[at : at + 5]
                   for start in range(len(numbers) - 4) for at in range(len(codes) - 4))  # fmt: skip


def test_the_same_leak_is_there_for_the_instructor_alone(judge: Judge) -> None:
    """The attack works as far as it can: without the grader's care the solution would be shown."""
    printed = submission({"1.8": LEAK + "print(text)\nreturn query, key, value\n"}, "1.8")
    spliced = judge._spliced(printed.answers, ["1.8"])
    answer, _ = judge._graded.answer(EXERCISES["1.8"], spliced, 7)
    assert SOLVED.regions["attention.py"]["1.6"].body.strip().splitlines()[-1].strip() in answer.output


def test_what_an_earlier_answer_gave_is_not_in_a_later_ones_memory(judge: Judge) -> None:
    told = f"return torch.full((*query.shape[:-1], key.shape[-2]), {MAGIC}, dtype=query.dtype)\n"
    assert judge.grade(submission({"1.1": told}), "1.1").state == "wrong"
    reader = next(one for one in HOSTILE if one.name == "looks through its memory for an earlier answer")
    record = judge.grade(submission({"1.1": reader.filled()}), "1.1")
    assert record.state == "wrong"
    assert record.diagnosis[0].startswith("The scores are not scaled")
    sees_itself = told.replace("return", "kept =") + reader.filled()
    assert judge.grade(submission({"1.1": sees_itself}), "1.1").state == "passed", "the search finds what is there"


def test_a_forged_manifest_gives_nothing(judge: Judge) -> None:
    forged = replace(submission({"1.1": WRONG}), manifest={"verdicts": {"1.1": "passed"}, "points": {"1.1": 3}})
    assert judge.grade(forged, "1.1").points == 0


def test_there_are_more_than_thirty_kinds_and_a_sample_of_each_sort_runs_every_time() -> None:
    assert len({one.name for one in HOSTILE}) == len(HOSTILE) >= 30
    assert {one.state for one in HOSTILE if one.quick} >= {"stopped", "wrong", "passed"}
