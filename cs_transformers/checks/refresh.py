"""Regenerating references and fingerprints from the solutions and the mistakes: the instructor edition only."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from . import diagnosis, references, tree
from .client import Answer
from .markers import Region, body_problem, indented, is_stub
from .registry import EXERCISES, Exercise, exercise
from .runner import Runner

GOAL = "the goal is reached"  # what every scoring check says of a result that is good enough
MISTAKES = Path(__file__).with_name("mistakes")


@dataclass(frozen=True)
class Mistake:
    """A wrong body.

    Args:
        name: File name without its ending.
        diagnosis: The sentence on its first line.
        region: Name of the region it stands in.
        body: The lines, at the left margin.
    """

    name: str
    diagnosis: str
    region: str
    body: str


def mistakes_of(id: str, folder: Path = MISTAKES) -> list[Mistake]:
    """The known mistakes of an exercise.

    Args:
        id: The exercise.
        folder: Where mistakes lie.

    Raises:
        ValueError: If a file does not begin with its diagnosis.
    """
    found = []
    for path in sorted((folder / id.replace(".", "_")).glob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if not lines or not lines[0].startswith("# "):
            raise ValueError(f"{path.name}: expected a comment with the diagnosis in the first line, got none; add it")
        region = re.match(r"# region: (.+)", lines[1]) if len(lines) > 1 else None
        body = "".join(lines[2 if region else 1 :])
        found.append(Mistake(path.stem, lines[0][2:].strip(), region[1].strip() if region else id, body))
    return found


def reference_answers(package: Path = tree.PACKAGE) -> tree.Answers:
    """The solutions of every exercise.

    Args:
        package: Folder of the package.

    Raises:
        ValueError: If the package is not the instructor edition.
    """
    files = sorted({one.file for one in EXERCISES.values() if one.file})
    answers = tree.read_answers(package, files)
    for (file, name), (line, problem) in answers.problems.items():
        raise ValueError(f"{file}, line {line}: {problem} ({name or 'the whole file'})")
    stubs = [
        name for regions in answers.regions.values() for name, region in regions.items() if _unsolved(name, region)
    ]
    if stubs:
        raise ValueError(
            f"refresh: expected a package with all solutions, got stubs for {', '.join(stubs)}; "
            "refresh in the instructor edition"
        )
    return answers


def _unsolved(name: str, region: Region) -> bool:
    return name != "helpers" and is_stub(region.body)


def with_mistake(answers: tree.Answers, file: str, mistake: Mistake) -> tree.Answers:
    """The same answers with one region's body replaced by a mistake.

    Args:
        answers: The solutions.
        file: File of the exercise.
        mistake: The wrong body.

    Raises:
        ValueError: If there is no such region or the body cannot stand in it.
    """
    if mistake.region not in answers.regions.get(file, {}):
        raise ValueError(
            f"mistake {mistake.name}: expected a region of {file}, got {mistake.region!r}; name it in the second line"
        )
    region = answers.regions[file][mistake.region]
    region = replace(region, body=indented(mistake.body, region.indent))
    problem = body_problem(region)
    if problem is not None:
        raise ValueError(f"mistake {mistake.name}: {problem[1]}")
    regions = {**answers.regions, file: {**answers.regions[file], mistake.region: region}}
    return tree.Answers(regions, answers.problems)


def refresh(id: str, folder: Path = references.FOLDER, runner: Runner | None = None) -> Path:
    """Run an exercise's solution and its mistakes, and store the numbers.

    Args:
        id: The exercise.
        folder: Where references lie.
        runner: What runs the checks.

    Returns:
        The file written.

    Raises:
        ValueError: If the solution does not answer, or a mistake gives what the solution gives.
    """
    one, runner = exercise(id), runner or Runner()
    answers = reference_answers(runner.package)
    expected = recorded(runner, one, answers, references.SEED)
    if expected.state != "answered" or expected.errors:
        raise ValueError(f"refresh {id}: expected an answer of the solution, got {expected.state} {expected.errors}")
    missing = [part for part in one.parts if not any(key.startswith(part + "/") for key in expected.kinds)]
    if missing:
        raise ValueError(
            f"refresh {id}: the check function records nothing for {missing[0]!r}; add it or drop the part"
        )
    missed = [text for key, text in expected.texts.items() if key.startswith("score") and text != GOAL]
    if missed:
        raise ValueError(f"refresh {id}: expected the solution to reach its goal, got {missed[0]!r}; train it better")
    reference = references.Reference(references.SEED, expected)
    for mistake in mistakes_of(id):
        reference.fingerprints.append(fingerprint(runner, one, answers, mistake, expected, references.SEED))
    return references.save(id, reference, folder)


def fingerprint(
    runner: Runner, one: Exercise, answers: tree.Answers, mistake: Mistake, expected: Answer, seed: int
) -> diagnosis.Fingerprint:
    """Run one mistake and take its fingerprint.

    Args:
        runner: What runs the check.
        one: The exercise.
        answers: The solutions.
        mistake: The wrong body.
        expected: What the solution recorded.
        seed: Seed of the inputs.

    Raises:
        ValueError: If it does not answer, or answers like the solution.
    """
    answer = recorded(runner, one, with_mistake(answers, one.file, mistake), seed)
    if answer.state != "answered":
        raise ValueError(f"mistake {one.id} {mistake.name}: expected an answer, got {answer.state} {answer.detail}")
    taken = diagnosis.take(mistake.name, mistake.diagnosis, expected, answer, [*one.parts, diagnosis.OBSERVED])
    if not taken.parts:
        raise ValueError(f"mistake {one.id} {mistake.name}: it gives what the solution gives; no check can see it")
    return taken


def recorded(runner: Runner, one: Exercise, answers: tree.Answers, seed: int) -> Answer:
    """What an exercise's check records with these answers.

    Args:
        runner: What runs the check.
        one: The exercise.
        answers: Answers to run it on.
        seed: Seed of the inputs.
    """
    return runner.answer(one, answers, seed)[0]
