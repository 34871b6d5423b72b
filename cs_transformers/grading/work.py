"""The work on one submission: what is missing of it, in an order in which each step knows what the ones before gave.

The same function runs in a thread of this machine and in a worker of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .judging import Judge, trains
from .model import NotebookRun, Record, Submission
from .nbval_stage import NotebookStage
from .training_stage import grade_recipes, split

TRIES = 2


@dataclass(frozen=True)
class Task:
    """What is to be done for one submission.

    Args:
        submission: What was handed in.
        missing: Exercises without a verdict, in order.
        passed: Exercises that an earlier run has seen pass.
        graded: All exercises of the run.
        nbval: Whether the notebooks are re-executed too.
        notebooks: Digests of notebooks' runs that are known.
    """

    submission: Submission
    missing: tuple[str, ...]
    passed: tuple[str, ...]
    graded: tuple[str, ...]
    nbval: bool = False
    notebooks: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Trouble:
    """What could not be graded, and why: the machine is at fault, not the student.

    Args:
        student: Id of the person.
        exercise: The exercise, or the notebook.
        reason: What happened.
    """

    student: str
    exercise: str
    reason: str


Result = Record | NotebookRun | Trouble


class Workshop:
    """A judge with what it needs, made anew when it breaks.

    Args:
        make_judge: Makes a judge.
        judge: The first one, where there is one already.
    """

    def __init__(self, make_judge: Callable[[], Judge], judge: Judge | None = None) -> None:
        self._make = make_judge
        self.judge = judge or make_judge()
        self.stopped = self.closed = False
        self._stage: NotebookStage | None = None

    @property
    def stage(self) -> NotebookStage:
        """The stage of nbval."""
        if self._stage is None:
            self._stage = NotebookStage(self.judge)
        return self._stage

    def close(self) -> None:
        """End the processes; what an exercise under way gives then counts no more."""
        self.closed = True
        self._end()

    def _end(self) -> None:
        self.judge.close()
        self.judge.sandbox.close()

    def _renew(self) -> None:
        self._end()
        self.judge, self._stage = self._make(), None

    def perform(self, task: Task, done: Callable[[Result], None]) -> None:
        """Do a task; what goes wrong with the machine is a result too, and the rest goes on.

        Args:
            task: What is to be done.
            done: Called with each result as it comes.
        """
        passed = list(task.passed)

        def keep(result: Result) -> None:
            if self.closed:
                return
            if isinstance(result, Record) and result.state == "passed":
                passed.append(result.exercise)
            done(result)

        quick, recipes = split(task.missing)
        for id in quick:
            if self.stopped:
                return
            keep(self._tried(task, id, lambda id=id: self.judge.grade(task.submission, id)))
        for id in recipes:
            own = sorted(set(passed))
            if self.stopped:
                return
            keep(
                self._tried(
                    task, id, lambda id=id, own=own: next(grade_recipes(self.judge, task.submission, [id], own))
                )
            )
        if task.nbval and not task.submission.problem and not self.stopped:
            self._notebooks(task, sorted(set(passed)), done)

    def _notebooks(self, task: Task, passed: list[str], done: Callable[[Result], None]) -> None:
        own = [id for id in passed if not trains(id)]
        names = [
            name
            for name in self.stage.wanted(own, task.graded)
            if self.stage.digest(task.submission, own, name) not in task.notebooks
        ]
        if names:
            try:
                self.stage.run(task.submission, own, names, done)
            except Exception as error:  # nbval gives no points: what breaks it must not cost the verdicts
                done(Trouble(task.submission.person.id, ", ".join(names), f"{type(error).__name__}: {error}"))

    def _tried(self, task: Task, id: str, grade: Callable[[], Record]) -> Result:
        reason = ""
        for _ in range(TRIES):
            try:
                return grade()
            except Exception as error:  # a fault of the grader or the machine: try once more with a fresh one
                reason = f"{type(error).__name__}: {error}"
                if self.closed:
                    break
                self._renew()
        return Trouble(task.submission.person.id, id, " ".join(reason.split())[:500])


def without_files(submission: Submission) -> Submission:
    """A submission as it travels to another machine: without paths of this one.

    Args:
        submission: The submission.
    """
    return replace(submission, folder=None, manifest={})
