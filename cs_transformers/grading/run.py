"""`cst grade`: take in, grade what is missing, write the results. Killed at any moment, it goes on where it was."""

from __future__ import annotations

import platform
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import cs_transformers
from cs_transformers.checks import EXERCISES
from cs_transformers.errors import check_count, explain
from cs_transformers.files import ensure_folder

from . import enclosure, feedback, gradebook, gradescope, report
from .cluster import grade_on_cluster
from .deliveries import deliveries_of
from .intake import take_in
from .journal import Journal, to_record
from .judging import Judge, exercises, trains
from .loading import COPIES, JOURNAL, class_entry, load
from .model import Classroom, NotebookRun, Person, Record, Submission
from .roster import read_roster
from .sandbox import Sandbox, SandboxError
from .work import Result, Task, Trouble, Workshop

__all__ = ["grade", "load", "write_results"]

LOG = "log.txt"
WEIGHT_OF_RECIPE, WEIGHT_OF_NOTEBOOK = 30, 60  # of the progress bar, in quick exercises
Progress = Callable[[int, int, str], None]


def grade(
    submissions: Path,
    out: Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    only: Collection[str] = (),
    nbval: bool = True,
    scheduler: str | None = None,
    require_sandbox: bool = False,
    roster: Path | None = None,
    progress: Progress | None = None,
) -> Classroom:
    """Grade a class and write every result.

    Args:
        submissions: Folder or zip of what was handed in.
        out: Folder for the grades.
        jobs: Submissions graded at the same time on this machine.
        resume: Go on with a run that stands in ``out``: only what is missing or has changed is graded.
        only: Exercises to grade; default: all, or with ``resume`` those of the run that stands there.
        nbval: Also re-execute the instructor's notebooks on mended trees.
        scheduler: Address of a Dask scheduler whose cluster does the work.
        require_sandbox: Refuse to run where students' code cannot be isolated.
        roster: A CSV file of the class.
        progress: Called with (done, all, what) as the run goes on.

    Returns:
        The class; ``ungraded`` names what could not be graded.

    Raises:
        ValueError: If an argument is wrong, or ``out`` holds another run.
        OSError: If the machine fails: ``out`` cannot be written to, the disk is full. What is graded stays.
        SandboxError: If isolation is required and missing.
    """
    check_count("cst grade", "jobs", jobs)
    submissions, out = Path(submissions), Path(out)
    _check_places(submissions, out, roster)
    graded = exercises(only)
    ensure_folder(out, who="cst grade")
    with Journal(out / JOURNAL) as kept:
        if kept.entries and not resume:
            want, got = "a new folder", f"{out}, which holds a run"
            raise ValueError(explain("cst grade", "-o", want, got, "pass --resume to go on with it, or another folder"))
        if kept.entries and not only:  # options left out the second time do not widen what is graded
            before = {id for entry in kept.entries if entry["kind"] == "run" for id in entry["graded"]}
            graded = exercises(before & EXERCISES.keys() or None)  # the course may have lost one since
        log = Log(out / LOG)
        run = _Run(kept, out, graded, nbval, require_sandbox, log)
        try:
            run.take_in(submissions, roster)
            run.perform(jobs, scheduler, progress or (lambda _done, _all, _what: None))
        finally:
            run.close()
        classroom = load(out)
        write_results(classroom, out)
        log.summary(classroom)
    return classroom


def write_results(classroom: Classroom, out: Path) -> None:
    """Write gradebooks, results for Gradescope, feedback and the report: the same class gives the same bytes.

    Args:
        classroom: The class.
        out: Folder of the grades.
    """
    for writer in (gradebook, gradescope, feedback, report):
        writer.write(classroom, out)


def _check_places(submissions: Path, out: Path, roster: Path | None) -> None:
    """Refuse what cannot be graded before anything is written."""
    inside = out.resolve()
    if submissions.resolve() in (inside, *inside.parents):
        got = f"{out}, inside of what was handed in"
        raise ValueError(explain("cst grade", "-o", "a folder of its own", got, "name a folder beside it"))
    if out.exists() and not out.is_dir():
        raise ValueError(explain("cst grade", "-o", "a folder", f"{out}, a file", "name a folder"))
    copies = out / COPIES
    if copies.resolve() in (submissions.resolve(), *submissions.resolve().parents) or (
        copies.exists() and not (out / JOURNAL).is_file()
    ):  # clean copies will stand there, in place of what somebody may have no other copy of
        got = f"{out}, whose folder {COPIES} no run wrote"
        raise ValueError(explain("cst grade", "-o", "a folder of its own", got, "name a new folder, such as grades"))
    if roster is not None:
        read_roster(roster)
    if not submissions.exists() or next(deliveries_of(submissions), None) is None:
        want, got = "a folder or a zip of what was handed in", f"{submissions}, which is not there or empty"
        raise ValueError(explain("cst grade", "SUBMISSIONS", want, got, "give the folder or zip of the whole class"))


@dataclass
class _Run:
    """One call of `cst grade`."""

    journal: Journal
    out: Path
    graded: list[str]
    nbval: bool
    require: bool
    log: Log
    judge: Judge = field(init=False)
    submissions: list[Submission] = field(init=False, default_factory=list)
    digests: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        known = self.journal.entries
        if self.nbval and self.require and enclosure.tier() != "bubblewrap":
            raise SandboxError(
                "--require-sandbox: bubblewrap is missing for the notebooks, or user namespaces are forbidden; install "
                "bubblewrap, or leave the notebooks out with --no-nbval"
            )
        self.key = bytes.fromhex(known[0]["key"]) if known else secrets.token_bytes(16)
        self.judge = self._make_judge()
        self.journal.write("run", self._entry())
        self.log.say(f"grading {len(self.graded)} exercises, answers isolated by: {self.judge.sandbox.tier}")

    def _make_judge(self) -> Judge:
        return Judge(key=self.key, sandbox=Sandbox(require=self.require))

    def _entry(self) -> dict:
        import numpy
        import torch

        return {
            "key": self.key.hex(),
            "tier": self.judge.sandbox.tier,
            "notebooks": enclosure.tier() if self.nbval else "",
            "versions": {
                "course": getattr(cs_transformers, "__version__", ""),
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": numpy.__version__,
            },
            "graded": self.graded,
            "grader": self.judge.grader_digest,
        }

    def close(self) -> None:
        self.judge.close()
        self.judge.sandbox.close()

    def take_in(self, submissions: Path, roster: Path | None) -> None:
        taken = take_in(submissions, self.out / COPIES, roster, self.graded)
        self.submissions = list({one.person.id: one for one in taken}.values())  # the latest attempt counts
        people = {person.id: person for person in read_roster(roster)} if roster else {}
        people |= {one.person.id: one.person for one in taken}
        self.journal.write("class", class_entry(people.values(), taken, self.out))
        self.digests = {one.person.id: one.digest for one in self.submissions}
        self.log.taken(taken, people.values())

    def tasks(self) -> list[Task]:
        verdicts: dict[tuple[str, str], Record] = {}
        runs: dict[str, set[str]] = {}
        for entry in self.journal.entries:
            if entry["kind"] == "record":
                verdicts[entry["student"], entry["digest"]] = to_record(entry)
            elif entry["kind"] == "notebook":
                runs.setdefault(entry["student"], set()).add(entry["digest"])
        tasks = []
        for one in self.submissions:
            id = one.person.id
            known = {ex: verdicts.get((id, self.judge.digest(one, ex))) for ex in self.graded}
            missing = tuple(ex for ex, record in known.items() if record is None)
            passed = tuple(ex for ex, record in known.items() if record and record.state == "passed")
            nbval = self.nbval and not one.problem
            if missing or nbval:
                tasks.append(Task(one, missing, passed, tuple(self.graded), nbval, frozenset(runs.get(id, ()))))
        return tasks

    def perform(self, jobs: int, scheduler: str | None, progress: Progress) -> None:
        tasks = self.tasks()
        meter = _Meter(tasks, progress)

        def keep(result: Result) -> None:
            digest = self.digests[result.student]
            kind = {Record: "record", NotebookRun: "notebook", Trouble: "trouble"}[type(result)]
            self.journal.write(kind, {**asdict(result), "submission": digest})
            self.log.result(result)
            meter.step(result)

        if scheduler is not None:
            grade_on_cluster(scheduler, tasks, self.judge, require=self.require, done=keep, finished=meter.finish)
        else:
            workshops = [Workshop(self._make_judge, self.judge)]
            workshops += [Workshop(self._make_judge) for _ in range(min(jobs, len(tasks)) - 1)]
            _grade_here(tasks, workshops, keep, meter)


def _grade_here(tasks: list[Task], made: list[Workshop], done: Callable[[Result], None], meter: _Meter) -> None:
    """Do tasks in a thread for each workshop; the first error of the run itself ends it."""
    workshops: queue.SimpleQueue[Workshop] = queue.SimpleQueue()
    for workshop in made:
        workshops.put(workshop)

    def perform(task: Task) -> None:
        workshop = workshops.get()
        try:
            workshop.perform(task, done)
            meter.finish(task)
        finally:
            workshops.put(workshop)

    try:
        with ThreadPoolExecutor(len(made)) as pool:
            futures = [pool.submit(perform, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                for workshop in made:
                    workshop.stopped = True  # each ends after the exercise it is at
                meter.stopping()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for workshop in made:
            workshop.close()


class _Meter:
    """Turns results into the position of a progress bar, whose unit is a quick exercise."""

    def __init__(self, tasks: list[Task], progress: Progress) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._left = {task.submission.person.id: _weight_of(task) for task in tasks}
        self._all, self._done = sum(self._left.values()), 0
        progress(0, self._all, "")

    def step(self, result: Result) -> None:
        name = result.notebook if isinstance(result, NotebookRun) else result.exercise
        with self._lock:
            self._move(result.student, _weight(name), name)

    def stopping(self) -> None:
        """Say that the run ends as soon as what is under way has ended."""
        with self._lock:
            self._progress(self._done, self._all, "stopping after this exercise")

    def finish(self, task: Task) -> None:
        """Count what a task turned out not to need: a notebook in which nothing of the student's passed, say."""
        with self._lock:
            self._move(task.submission.person.id, self._all, "done")

    def _move(self, student: str, weight: int, name: str) -> None:
        weight = min(weight, self._left[student])
        self._left[student] -= weight
        self._done += weight
        self._progress(self._done, self._all, f"{student} {name}")


def _weight_of(task: Task) -> int:
    notebooks = {id.partition(".")[0] for id in task.graded} if task.nbval else set()
    return sum(_weight(id) for id in task.missing) + WEIGHT_OF_NOTEBOOK * len(notebooks)


def _weight(name: str) -> int:
    if name not in EXERCISES:
        return WEIGHT_OF_NOTEBOOK
    return WEIGHT_OF_RECIPE if trains(name) else 1


class Log:
    """What happened when, for people: appended to log.txt.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock, self._started = path, threading.Lock(), time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """Write a line with the time.

        Args:
            text: The line.
        """
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} {' '.join(text.split())}\n")

    def taken(self, submissions: list[Submission], people: Iterable[Person]) -> None:
        """Say what was taken in.

        Args:
            submissions: Every attempt.
            people: Everybody in the class.
        """
        people = list(people)
        came = {one.person.id for one in submissions}
        self.say(f"{len(submissions)} attempts of {len(came)} people; {len(people) - len(came)} absent")
        for one in submissions:
            name = f"{one.person.id}, attempt {one.attempt} ({one.source})"
            for kind, lines in (("mended", one.repairs), ("no effect", one.changes), ("incident", one.incidents)):
                for line in lines:
                    self.say(f"{name}: {kind}: {line}")
            if one.problem:
                self.say(f"{name}: cannot be graded: {one.problem}")

    def result(self, result: Result) -> None:
        """Say how an exercise or a notebook came out.

        Args:
            result: What came out.
        """
        if isinstance(result, Record):
            extra = f"; incident: {result.incident}" if result.incident else ""
            detail = f" ({result.detail})" if result.detail else ""
            state = f"{result.state}{detail}, {result.points} of {result.out_of}"
            self.say(f"{result.student} {result.exercise}: {state}, {result.seconds:.2f} s{extra}")
        elif isinstance(result, NotebookRun):
            counts = ", ".join(f"{count} {name}" for name, count in sorted(Counter(result.cells.values()).items()))
            self.say(f"{result.student} notebook {result.notebook}: {counts} {result.problem}")
        else:
            self.say(f"{result.student} {result.exercise}: NOT GRADED: {result.reason}")

    def summary(self, classroom: Classroom) -> None:
        """Say how the run ended.

        Args:
            classroom: The class.
        """
        states = Counter(one.state for student in classroom.students.values() for one in student.records.values())
        self.say(f"{len(classroom.students)} people, {sum(states.values())} verdicts: {dict(sorted(states.items()))}")
        for name, reason in classroom.ungraded.items():
            self.say(f"could not be graded: {name}: {reason}")
        self.say(f"ended after {time.monotonic() - self._started:.0f} s")
