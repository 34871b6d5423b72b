"""Running exercises on one copy of the course: lift, rebuild, run in the worker, judge, say why."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import edition, references, scratch, tree
from .client import Answer, Job, Worker, shared_worker
from .diagnosis import OBSERVED, Fingerprint, diagnose
from .forbidden import forbidden_use
from .markers import HELPERS, is_stub
from .registry import EXERCISES, Exercise, closure, definitions_of
from .stages import ADVICE, STAGES, Finding, Outcome, judge, points_of, stage_of
from .verdict import Verdict

GIVEN = "given/"
EMPTY_ANSWER = "*Your answer, in one to five sentences.*"
STOPPED = {
    "timeout": "it did not end within {seconds:.0f} seconds; {detail}",
    "crashed": "its process died ({detail})",
    "exited early": "it ended its process before it answered ({detail})",
    "no answer": "no answer came back ({detail})",
}


@dataclass
class Runner:
    """Checks of one copy of the package.

    Args:
        package: Folder of the package whose answers are checked.
        worker: Where they run; default: the shared one of this process.
        sources: Pristine sources; default: those that belong to the package.
        scoring: Answers whose tree judges trained weights and built inputs; default: the ones under test, which is all
            that a student's copy has. Grading gives the solutions.
    """

    package: Path = tree.PACKAGE
    worker: Worker | None = None
    sources: dict[str, str] | None = None
    scoring: tree.Answers | None = None
    _passed: dict[str, str] = field(default_factory=dict, init=False)

    def verdict(self, id: str) -> Verdict:
        """The verdict on one exercise, after those it needs.

        Args:
            id: The exercise.
        """
        release = edition.load(self.package)
        given = release.given(EXERCISES[id])
        if given is not None:
            return given
        wanted = [one for one in closure(id) if release.asks(one)]
        answers = self._answers(wanted)
        for needed in wanted[:-1]:
            if not self._known_as_passed(needed, answers) and not self.verdict_on(EXERCISES[needed], answers).passed:
                return self._blocked(EXERCISES[id], needed, answers)
        return self.verdict_on(EXERCISES[id], answers)

    def verdicts(self, ids: list[str]) -> list[Verdict]:
        """The verdicts on several exercises, in their order.

        Args:
            ids: The exercises.
        """
        return [self.verdict(id) for id in ids]

    def answer(self, exercise: Exercise, answers: tree.Answers, seed: int, **job) -> tuple[Answer, list[str]]:
        """What an exercise's check records on a tree with these answers, and files whose helpers were left out.

        Args:
            exercise: The exercise.
            answers: Answers to put into the tree.
            seed: Seed of the inputs.
            **job: Fields of the job to change.
        """
        prepared = self._prepared(exercise, answers, seed)
        job.setdefault("arrays", {key: array for key, array in prepared.items() if key.startswith(GIVEN)})
        answer = self._job(exercise, answers, frozenset(), seed, **job)
        broken = _helpers_at_fault(answer, answers)
        if broken:
            answer = self._job(exercise, answers, frozenset(broken), seed, **job)
        if exercise.scoring and answer.state == "answered" and not answer.errors:
            answer = self._scored(exercise, answers, frozenset(broken), seed, answer, prepared)
        return answer, broken

    def _prepared(self, exercise: Exercise, answers: tree.Answers, seed: int) -> dict[str, np.ndarray]:
        """Arrays that are made before the answer runs, in a process of their own."""
        if not exercise.inputs:
            return {}
        trusted = answers if self.scoring is None else self.scoring
        return self._job(exercise, trusted, frozenset(), seed, check=exercise.inputs, forbidden=()).arrays

    def _scored(
        self,
        exercise: Exercise,
        answers: tree.Answers,
        without: frozenset[str],
        seed: int,
        answer: Answer,
        prepared: dict[str, np.ndarray],
    ) -> Answer:
        """Judge what an answer made (weights, inputs) in a process in which that answer has not run."""
        scoring = answers if self.scoring is None else self.scoring
        job = {"check": exercise.scoring, "arrays": {**answer.arrays, **prepared}, "forbidden": ()}
        scored = replace(self._job(exercise, scoring, without, seed, **job), output=answer.output)
        for seen, kept in ((answer.kinds, scored.kinds), (answer.texts, scored.texts)):
            kept.update({key: value for key, value in seen.items() if key.startswith(f"{OBSERVED}/")})
        return scored

    def _answers(self, ids: list[str]) -> tree.Answers:
        files = sorted({EXERCISES[id].file for id in ids if EXERCISES[id].file})
        return tree.read_answers(self.package, files)

    def _sources(self) -> dict[str, str]:
        return tree.pristine_sources(self.package) if self.sources is None else self.sources

    def _has_text(self, id: str) -> bool:
        """Whether an inline answer to a question was written (cells ``%%answer`` keep it in ``answers/``)."""
        path = self.package.parent / "answers" / f"{id}.md"
        return path.is_file() and path.read_text(encoding="utf-8", errors="replace").strip() not in ("", EMPTY_ANSWER)

    def _job(self, exercise: Exercise, answers: tree.Answers, without: frozenset[str], seed: int, **job) -> Answer:
        with self._tree(answers, without) as root:
            wanted = Job(str(root), definitions_of(exercise), exercise.id, seed, exercise.seconds, exercise.forbidden)
            answer = (self.worker or shared_worker()).run(replace(wanted, **job))
            for error in answer.errors:
                if error["file"].startswith(f"{tree.PACKAGE_NAME}/"):
                    error["file"] = error["file"][len(tree.PACKAGE_NAME) + 1 :]
                    error["line"] = _line_at_home(error["file"], error["line"], root, answers)
            return answer

    @contextlib.contextmanager
    def _tree(self, answers: tree.Answers, without: frozenset[str]) -> Iterator[Path]:
        """A tree with these answers, for as long as a job needs it."""
        with scratch.folder("tree") as folder:
            yield tree.rebuild(Path(folder).resolve(), self._sources(), answers, without_helpers=without)

    def verdict_on(self, exercise: Exercise, answers: tree.Answers) -> Verdict:
        """The verdict on one exercise with given answers, whatever the state of those it needs.

        Args:
            exercise: The exercise.
            answers: Answers to put into the tree.
        """
        verdict = Verdict(
            exercise.id,
            exercise.symbol,
            "wrong",
            out_of=sum(exercise.parts.values()),
            review=sum(exercise.rubric.values()),
        )
        if not exercise.parts:
            verdict.state = "awaiting review" if self._has_text(exercise.id) else "not attempted"
            return verdict
        if refused(verdict, exercise, answers, tree.expected_regions(exercise.file, exercise.id, self._sources())):
            return verdict
        try:
            reference = references.load(exercise.id)
        except ValueError as error:
            verdict.state, verdict.lines = "stopped", [str(error)]
            return verdict
        answer, left_out = self.answer(exercise, answers, reference.seed)
        conclude(verdict, exercise, reference, answer)
        verdict.lines += [f"{file}: your helpers region could not be imported and was left out" for file in left_out]
        if verdict.passed:
            self._passed[exercise.id] = self._digest(exercise.id, answers)
        return verdict

    def _digest(self, id: str, answers: tree.Answers) -> str:
        return tree.digest(answers, [(EXERCISES[one].file, one) for one in closure(id)])

    def _known_as_passed(self, id: str, answers: tree.Answers) -> bool:
        return id in self._passed and self._passed[id] == self._digest(id, answers)

    def _blocked(self, exercise: Exercise, needed: str, answers: tree.Answers) -> Verdict:
        verdict = Verdict(
            exercise.id,
            exercise.symbol,
            "blocked",
            out_of=sum(exercise.parts.values()),
            review=sum(exercise.rubric.values()),
            detail=f"by {needed}",
        )
        regions = answers.of(exercise.file, exercise.id)
        if regions and all(is_stub(region.body) for region in regions.values()):
            verdict.state, verdict.detail = "not attempted", ""
        else:
            verdict.lines = [f'it needs {needed} {EXERCISES[needed].symbol}, which has not passed: check("{needed}")']
        return verdict


def conclude(verdict: Verdict, exercise: Exercise, reference: references.Reference, answer: Answer) -> None:
    """Fill a verdict in from what an exercise's check recorded.

    Args:
        verdict: The verdict to fill.
        exercise: Its exercise.
        reference: What is stored for it.
        answer: What was recorded.
    """
    verdict.output = answer.output
    if answer.state != "answered":
        reason = STOPPED[answer.state].format(seconds=exercise.seconds, detail=answer.detail)
        verdict.state, verdict.detail, verdict.lines = "stopped", answer.state, [f"stopped: {reason}"]
        return
    call = next((error["message"] for error in answer.errors if error["type"] == "ForbiddenCallError"), None)
    if call is not None:
        verdict.state, verdict.lines = "forbidden call", [forbidden_sentence(exercise, call)]
        return
    outcome = judge(exercise.parts, reference.expected, answer)
    verdict.parts, verdict.points = outcome.parts, points_of(exercise.parts, outcome)
    if outcome.first is None:
        verdict.state = "passed"
        return
    verdict.state = "partly" if verdict.points else "wrong"
    verdict.stage = outcome.first.aspect
    _explain(verdict, exercise, reference, answer, outcome)


def _explain(
    verdict: Verdict, exercise: Exercise, reference: references.Reference, answer: Answer, outcome: Outcome
) -> None:
    first = outcome.first
    if first.error is not None and "NotImplementedError" in first.error["bases"]:
        other = re.search(r"exercise (\d+\.\d+)", first.error["message"])
        if other and other[1] != exercise.id:
            verdict.state, verdict.detail = "blocked", f"by {other[1]}"
        elif not verdict.points:
            verdict.state = "not attempted"
        verdict.lines = [first.sentence]
        return
    found = diagnose(reference.fingerprints, answer, *failed_and_judged(exercise, outcome))
    verdict.diagnosis = [mistake.diagnosis for mistake in found]
    verdict.lines = main_fault_first(first, found, [first.sentence, *_advice(first)])
    verdict.lines.append(f'hint("{exercise.id}") says more, one step at a time')


def main_fault_first(first: Finding, found: list[Fingerprint], plain: list[str]) -> list[str]:
    """Sentences on known mistakes, behind plain ones where what failed first is none of them.

    Args:
        first: What failed first.
        found: Known mistakes that the answer bears the mark of.
        plain: Sentences on what failed first.
    """
    known = any(first.part in mistake.parts for mistake in found)
    return ([] if known else plain) + [mistake.diagnosis for mistake in found]


def failed_and_judged(exercise: Exercise, outcome: Outcome) -> tuple[list[str], list[str]]:
    """Parts that failed, and parts that were judged at all.

    Args:
        exercise: The exercise.
        outcome: What was judged.
    """
    failed = [finding.part for finding in outcome.findings]
    last = STAGES.index(stage_of(failed[0]))
    return failed, [part for part in exercise.parts if STAGES.index(stage_of(part)) <= last] + [OBSERVED]


def _advice(finding: Finding) -> list[str]:
    return [ADVICE[finding.aspect]] if finding.aspect in ADVICE else []


def refused(verdict: Verdict, exercise: Exercise, answers: tree.Answers, expected: set[str]) -> bool:
    """Whether the answer's text alone decides: broken markers, no answer yet, not Python, a forbidden name.

    Args:
        verdict: The verdict to fill in where it does.
        exercise: The exercise.
        answers: The student's answers.
        expected: Names of the regions that the exercise has.
    """
    file, regions = exercise.file, answers.of(exercise.file, exercise.id)
    problem = answers.problems.get((file, ""))
    missing = sorted(expected - set(regions)) or ([] if regions else [exercise.id])
    if problem is None and missing:
        problem = (0, f"the region of exercise {missing[0]} is missing; restore its marker lines")
    problem = problem or next(
        (answers.problems[file, name] for name in regions if (file, name) in answers.problems), None
    )
    if problem is not None:
        verdict.lines = [f"{file}, line {problem[0]}: {problem[1]}" if problem[0] else f"{file}: {problem[1]}"]
        return True
    if all(is_stub(region.body) for region in regions.values()):
        verdict.state = "not attempted"
        return True
    for region in (*regions.values(), *answers.of(file, HELPERS).values()):
        use = forbidden_use(region.body, exercise.forbidden)
        if use is not None:
            verdict.state = "forbidden call"
            verdict.lines = [f"{file}, line {region.first + use[0]}: {forbidden_sentence(exercise, use[1])}"]
            return True
    return False


def forbidden_sentence(exercise: Exercise, dotted: str) -> str:
    """What a student reads after a forbidden call.

    Args:
        exercise: The exercise.
        dotted: Name of what was called.
    """
    return f"{dotted} does what exercise {exercise.id} asks you to write; write it yourself"


def _helpers_at_fault(answer: Answer, answers: tree.Answers) -> list[str]:
    """Files whose helpers region stopped the import of the package."""
    faulty = []
    for error in answer.errors:
        region = answers.regions.get(error["file"], {}).get(HELPERS)
        if error["part"] == "import" and region is not None and region.first <= error["line"] <= region.last:
            faulty.append(error["file"])
    return faulty


def _line_at_home(file: str, line: int, root: Path, answers: tree.Answers) -> int:
    return tree.student_line(file, line, root, answers) if file in answers.regions else line
