"""The judge: one exercise of one submission in, one record out.

The answer runs in the sandbox on inputs nobody has seen; the solution and the known mistakes run in a process of their
own, apart from it, and arrays are compared here. A graded tree holds the solution of every earlier exercise, so that a
mistake costs its own exercise only; in place of later ones stands what the student wrote: no solution can be borrowed.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from cs_transformers.checks import references, tree
from cs_transformers.checks.client import Answer, Worker
from cs_transformers.checks.diagnosis import OBSERVED, Fingerprint, diagnose, take
from cs_transformers.checks.markers import HELPERS, Region, make_stubs, read_source, stub_line
from cs_transformers.checks.refresh import MISTAKES, Mistake, mistakes_of, reference_answers, with_mistake
from cs_transformers.checks.registry import EXERCISES, Exercise, closure, exercise
from cs_transformers.checks.runner import (
    STOPPED,
    Runner,
    failed_and_judged,
    forbidden_sentence,
    main_fault_first,
    refused,
)
from cs_transformers.checks.stages import Outcome, judge, points_of
from cs_transformers.checks.verdict import Verdict

from .model import AWAITING, Record, Submission
from .running import PATIENCE, GradedRunner, QuickRunner
from .sandbox import Sandbox, SandboxError
from .wording import picture, plain_sentence, public_sentences, same_fault

LONG = 60.0  # seconds; what may take longer trains
MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
STOPPED_HERE = {**STOPPED, "memory": "it took more memory than there is for an answer"}
# Modules of this folder that a verdict depends on; a change in the others does not grade a class again.
DECIDING = ("intake", "judging", "repairs", "running", "training_stage", "wording")
HARD_CODED = (
    "it is right on the inputs of the visible check and wrong on others: an answer may not depend on the inputs"
)


def exercises(only: Collection[str] | None = None) -> list[str]:
    """Ids of the exercises to grade, in the order of the course.

    Args:
        only: Those wanted; default: all.

    Raises:
        ValueError: If there is no such exercise.
    """
    wanted = {exercise(id).id for id in only} if only else set(EXERCISES)
    return [id for id in EXERCISES if id in wanted]


def trains(id: str) -> bool:
    """Whether an exercise is a recipe that trains: it takes long, and its weights are what is judged.

    Args:
        id: The exercise.
    """
    return bool(EXERCISES[id].scoring) and EXERCISES[id].seconds > LONG


@dataclass
class Expected:
    """What the solution gives for one exercise, and the marks of known mistakes once they are asked for.

    Args:
        seed: Seed of the inputs.
        answer: What the solution recorded.
        mistakes: Fingerprints, or None: not run yet.
    """

    seed: int
    answer: Answer
    mistakes: list[Fingerprint] | None = None


class Judge:
    """Grades exercises of submissions; the same key gives the same verdicts.

    Args:
        package: The package with the solutions.
        key: Where the hidden seeds come from; the same for a whole run.
        sandbox: Where answers run; default: one of the judge's own.

    Raises:
        ValueError: If the key is empty or the package is not the instructor edition.
    """

    def __init__(self, package: Path = tree.PACKAGE, key: bytes = b"", sandbox: Sandbox | None = None) -> None:
        if not isinstance(key, bytes) or not key:
            raise ValueError(f"Judge: expected a key of some bytes, got {key!r}; take secrets.token_bytes(16)")
        self.key, self.package = key, package
        self.solutions = reference_answers(package)
        self.sources = tree.pristine_sources(package)
        self.sandbox, self._own = sandbox or Sandbox(), sandbox is None
        self._worker = Worker()  # of the solutions: never the process that students' code is forked from
        self._trusted = Runner(package, worker=self._worker, sources=self.sources)
        self._graded = GradedRunner(
            package, worker=self.sandbox, sources=self.sources, scoring=tree.Answers(), trusted=self._worker
        )
        stubs = {path: make_stubs(text, path) for path, text in self.sources.items()}
        self._stubs = {path: text for path, text in stubs.items() if text != self.sources[path]}
        self._public = QuickRunner(package, worker=self.sandbox, sources={**self.sources, **self._stubs})
        self._expected: dict[str, Expected] = {}
        self.grader_digest = self._digest_of_grader()

    def __enter__(self) -> Judge:
        """The judge itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self.close()

    def close(self) -> None:
        """End the judge's processes."""
        self._worker.close()
        if self._own:
            self.sandbox.close()

    def seed(self, id: str) -> int:
        """The hidden seed of an exercise: the same for all students of a run.

        Args:
            id: The exercise.
        """
        drawn = hmac.new(self.key, id.encode(), hashlib.sha256).digest()
        return 1 + int.from_bytes(drawn[:4], "big") % (2**31 - 2)

    def digest(self, submission: Submission, id: str) -> str:
        """What a verdict depends on: the submission, the grader, the exercise.

        Args:
            submission: What was handed in.
            id: The exercise.
        """
        return hashlib.sha256("\0".join((submission.digest, self.grader_digest, id)).encode()).hexdigest()

    def grade(self, submission: Submission, id: str, passed: Collection[str] = ()) -> Record:
        """The verdict on one exercise of a submission; never raises for anything the answer does.

        Args:
            submission: What was handed in.
            id: The exercise.
            passed: Exercises whose answer stands in the tree in place of the solution: the mended tree, on which
                recipes train. Where that fails the solutions are tried, so that no mistake costs twice.

        Raises:
            SandboxError: If the sandbox itself does not work.
        """
        one, started = exercise(id), time.monotonic()
        verdict = Verdict(one.id, one.symbol, "wrong", out_of=sum(one.parts.values()), review=sum(one.rubric.values()))
        extra: dict = {}
        if submission.problem:
            verdict.state, verdict.lines = "not attempted", [submission.problem]
        elif not one.parts:
            verdict.state = AWAITING if submission.texts.get(one.id) else "not attempted"
        elif not self._refused(verdict, one, submission.answers):
            extra = self._run(verdict, one, submission.answers, [id for id in passed if id != one.id])
            if passed and verdict.state in ("wrong", "partly"):
                again = replace(verdict, state="wrong", points=0, lines=[], stage="", diagnosis=[], parts={}, detail="")
                extra_again = self._run(again, one, submission.answers, [])
                if again.points > verdict.points:
                    verdict, extra = again, extra_again
        return Record(
            submission.person.id, one.id, verdict.state, verdict.points, verdict.out_of, verdict.review,
            tuple(verdict.lines), tuple(verdict.diagnosis), verdict.parts, verdict.stage, verdict.detail,
            tier=self.sandbox.tier, digest=self.digest(submission, one.id),
            seconds=round(time.monotonic() - started, 3), **extra,
        )  # fmt: skip

    def mended(self, submission: Submission, passed: Collection[str]) -> tree.Answers:
        """The answers of the mended tree: the student's where they passed, the solutions elsewhere.

        Args:
            submission: What was handed in.
            passed: Exercises whose own answer stands.
        """
        return self._spliced(submission.answers, list(passed))

    # ---- running ------------------------------------------------------------------------------------------------

    def _refused(self, verdict: Verdict, one: Exercise, answers: tree.Answers) -> bool:
        if one.file not in answers.regions and (one.file, "") not in answers.problems:
            verdict.state, verdict.lines = "not attempted", [f"{one.file} was not handed in"]
            return True
        return refused(verdict, one, answers, tree.expected_regions(one.file, one.id, self.sources))

    def _run(self, verdict: Verdict, one: Exercise, answers: tree.Answers, passed: list[str]) -> dict:
        """Fill a verdict in; returns further fields of the record."""
        spliced = self._spliced(answers, [*passed, one.id], one)
        answer, left_out = self._graded.answer(one, spliced, self.seed(one.id))
        if answer.state == "no answer" and answer.detail == "the worker did not start":
            raise SandboxError(f"the sandbox does not start: {answer.output[-500:]}")
        verdict.output = answer.output
        extra = {"incident": answer.incident} if answer.incident else {}
        if self._stopped(verdict, one, answer) or self._called_forbidden(verdict, one, answer):
            return extra
        expected = self.expected(one.id)
        outcome = judge(one.parts, expected.answer, answer)
        verdict.parts, verdict.points = outcome.parts, points_of(one.parts, outcome)
        if outcome.first is None:
            verdict.state = "passed"
        else:
            extra |= self._explain(verdict, one, answers, answer, outcome)
        verdict.lines += [f"{file}: your helpers region could not be imported and was left out" for file in left_out]
        return extra

    def _stopped(self, verdict: Verdict, one: Exercise, answer: Answer) -> bool:
        state = answer.state
        if state == "answered" and _out_of_memory(answer):
            state = "memory"
        if state == "answered":
            return False
        reason = STOPPED_HERE[state].format(seconds=one.seconds, detail=answer.detail)
        verdict.state, verdict.detail, verdict.lines = "stopped", state, [f"stopped: {reason}"]
        return True

    def _called_forbidden(self, verdict: Verdict, one: Exercise, answer: Answer) -> bool:
        calls = [error["message"] for error in answer.errors if error["type"] == "ForbiddenCallError"]
        if not calls or calls[0] not in one.forbidden:  # any other text is the answer's own
            return False
        verdict.state, verdict.lines = "forbidden call", [forbidden_sentence(one, calls[0])]
        return True

    def _explain(
        self, verdict: Verdict, one: Exercise, answers: tree.Answers, answer: Answer, outcome: Outcome
    ) -> dict:
        """Say why; returns a picture where one helps."""
        first, expected = outcome.first, self.expected(one.id)
        verdict.state, verdict.stage = "partly" if verdict.points else "wrong", first.aspect
        if first.error is not None and "NotImplementedError" in first.error["bases"] and not verdict.points:
            verdict.state = "not attempted"
            verdict.lines = [plain_sentence(first, expected.answer, answer, self.sources)]
            return {}
        if expected.mistakes is None:
            expected.mistakes = self._mistakes(one, expected)
        found = diagnose(expected.mistakes, answer, *failed_and_judged(one, outcome))
        verdict.diagnosis = [mistake.diagnosis for mistake in found]
        lines, shown = self._shown(one, answers, outcome)
        plain = [plain_sentence(first, expected.answer, answer, self.sources)]
        verdict.lines = main_fault_first(first, found, lines or plain)
        return {"picture": shown} if shown else {}

    def _shown(self, one: Exercise, answers: tree.Answers, outcome: Outcome) -> tuple[list[str], dict]:
        """Sentences and a picture from a run without secrets: the student's own tree, the visible inputs."""
        if trains(one.id) or not self.sandbox.isolates("files"):
            return [], {}
        stored = references.load(one.id)
        answer, _ = self._public.answer(one, answers, stored.seed)
        if answer.state != "answered":
            return [], {}
        seen = judge(one.parts, stored.expected, answer)
        if seen.first is None:
            return [HARD_CODED], {}
        if seen.first.part not in {finding.part for finding in outcome.findings}:
            return [], {}  # something it needs fails there, and that has its own verdict
        if one.needs:  # the same must come out beside the solutions of what it needs
            graded, _ = self._graded.answer(one, self._spliced(answers, [one.id], one), stored.seed)
            again = judge(one.parts, stored.expected, graded)
            if again.first is None or not same_fault(seen.first, again.first, answer, graded):
                return [], {}
        return public_sentences(seen.first), picture(seen.first, stored.expected, answer)

    # ---- what is compared with --------------------------------------------------------------------------------------

    def expected(self, id: str) -> Expected:
        """What the solution gives with the hidden inputs, run once.

        Args:
            id: The exercise.

        Raises:
            SandboxError: If the solution does not answer.
        """
        if id not in self._expected:
            one, seed = EXERCISES[id], self.seed(id)
            if trains(id):  # judged in words that do not depend on the inputs, so the solution need not train again
                stored = references.load(id)
                self._expected[id] = Expected(seed, stored.expected, stored.fingerprints)
                return self._expected[id]
            answer, _ = self._trusted.answer(one, tree.Answers(), seed, seconds=PATIENCE * one.seconds)
            if answer.state != "answered" or answer.errors:
                raise SandboxError(f"exercise {id}: the solution does not answer ({answer.state} {answer.errors})")
            self._expected[id] = Expected(seed, answer)
        return self._expected[id]

    def _mistakes(self, one: Exercise, expected: Expected) -> list[Fingerprint]:
        found = []
        for mistake in mistakes_of(one.id, self.package / MISTAKES.relative_to(tree.PACKAGE)):
            found += self._mark(one, mistake, expected)
        return found

    def _mark(self, one: Exercise, mistake: Mistake, expected: Expected) -> list[Fingerprint]:
        wrong = with_mistake(self.solutions, one.file, mistake)
        wrong = tree.Answers({one.file: {mistake.region: wrong.regions[one.file][mistake.region]}})
        answer, _ = self._trusted.answer(one, wrong, expected.seed, seconds=PATIENCE * one.seconds)
        mark = take(mistake.name, mistake.diagnosis, expected.answer, answer, [*one.parts, OBSERVED])
        return [mark] if answer.state == "answered" and mark.parts else []

    # ---- trees ------------------------------------------------------------------------------------------------------

    def _spliced(self, answers: tree.Answers, own: list[str], one: Exercise | None = None) -> tree.Answers:
        """A student's answers to some exercises, and to those after ``one``; the sources have the solutions already."""
        order = list(EXERCISES)
        later = set() if one is None else set(order[order.index(one.id) + 1 :]) - set(closure(one.id))
        spliced = tree.Answers({}, {})
        for file, text in self.sources.items():
            if "### BEGIN" not in text:
                continue
            lifted, regions = answers.regions.get(file, {}), {}
            for name, place in self.solutions.regions.get(file, {}).items():
                if place.exercise in own or place.exercise in later:
                    regions[name] = lifted.get(name) or _stub(place)
            if any(region.exercise in own for region in regions.values()) and HELPERS in lifted:
                regions[HELPERS] = lifted[HELPERS]
            spliced.regions[file] = regions
            unusable = {key: problem for key, problem in answers.problems.items() if key[0] == file}
            spliced.problems.update(unusable)
        return spliced

    def _digest_of_grader(self) -> str:
        parts = [self.key.hex(), torch.__version__, np.__version__]
        for path, text in sorted(self.sources.items()):
            parts += [path, text]
        checks = self.package / "checks"
        deciding = [Path(__file__).with_name(f"{name}.py") for name in DECIDING]
        for path in sorted([*checks.glob("*.py"), *checks.rglob("mistakes/*/*.py"), *deciding]):
            parts += [path.name, read_source(path)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _stub(place: Region) -> Region:
    return replace(place, body=f"{place.indent}{stub_line(place.name)}\n")


def _out_of_memory(answer: Answer) -> bool:
    error = answer.errors[0] if answer.errors else None
    if error is None:
        return False
    return "MemoryError" in error["bases"] or any(words in error["message"] for words in MEMORY_WORDS)
