"""What a notebook uses: check an exercise, ask for a hint, list everything."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from cs_transformers.files import replace_file

from . import edition, tree
from .registry import NOTEBOOKS, exercise
from .runner import Runner
from .tree import digest, read_answers
from .verdict import Verdict

HINTS = Path(__file__).with_name("hints")
RECORD = "CST_VERDICTS"  # names the file that takes a line of JSON for every verdict
OPENED = tree.PACKAGE.parent / ".cst_hints.json"  # how many hints of each exercise were read
STEPS = 3
_runner: Runner | None = None
_last: dict[str, tuple[str, bool]] = {}
_opened: dict[str, int] = {}


def check(id: str, *, details: bool = False) -> None:
    """Check one exercise and print the verdict: passed or not, and why not.

    The answers are read from the package's files, put into an untouched copy and run in a process of their own, as
    grading does it. Nothing a student's code does raises here or stops the notebook.

    Args:
        id: The exercise, ``"1.6"``.
        details: Also print each part and what the code printed.
    """
    verdict = run(id)
    print(verdict)
    record = os.environ.get(RECORD)
    if record:  # `cst run` gathers what the check cells of a notebook say
        with open(record, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")
    for line in details_of(verdict) if details else []:
        print(line)


def details_of(verdict: Verdict) -> list[str]:
    """Lines on each part, and what the code printed.

    Args:
        verdict: A verdict.
    """
    said = {None: "not judged", True: "passed", False: "not passed"}
    lines = [f"  {said[passed]:>10}  {part}" for part, passed in verdict.parts.items()]
    return lines + ([f"  your code printed:\n{verdict.output}"] if verdict.output else [])


def run(id: str) -> Verdict:
    """The verdict on one exercise.

    Args:
        id: The exercise, ``"1.6"``.

    Raises:
        ValueError: If there is no such exercise.
    """
    one = exercise(id)
    verdict = _shared_runner().verdict(one.id)
    if one.file and not verdict.passed and verdict.state != "not attempted":
        now = digest(read_answers(_shared_runner().package, [one.file]), [(one.file, one.id)])
        if _last.get(one.id) == (now, verdict.passed):
            verdict.lines.append(f"{one.file} is as it was at the last check; save the file first if you changed it")
        _last[one.id] = (now, verdict.passed)
    return verdict


def ids_of(names: Iterable[str]) -> list[str]:
    """Exercises by id or by notebook, each once; of a notebook those that this edition asks for.

    Args:
        names: Ids, ``"1.6"``, or numbers of notebooks, ``"01"`` or ``"1"``.

    Raises:
        ValueError: If there is no such exercise, or this edition asks for none of a notebook.
    """
    release, ids = edition.load(tree.PACKAGE), []
    for name in names:
        number = name.strip().zfill(2)
        if number not in NOTEBOOKS:
            ids.append(exercise(name).id)
            continue
        asked = [one.id for one in release.asked([number])]
        if not asked:
            raise ValueError(
                f"check: expected a notebook with exercises to write, such as {', '.join(release.notebooks)}, got "
                f"{name!r}; this edition asks for none of it"
            )
        ids += asked
    return list(dict.fromkeys(ids))


def run_all(notebooks: Iterable[str] | None = None, progress: Callable[[Verdict], None] | None = None) -> list[Verdict]:
    """The verdicts on all exercises, or those of some notebooks.

    Args:
        notebooks: Numbers of notebooks, ``["01", "03"]``; default: all.
        progress: Called with each verdict as it comes.

    Raises:
        ValueError: If there is no such notebook.
    """
    wanted = list(NOTEBOOKS) if notebooks is None else [str(number).zfill(2) for number in notebooks]
    unknown = [number for number in wanted if number not in NOTEBOOKS]
    if unknown:
        raise ValueError(f"run_all: expected numbers of notebooks from {', '.join(NOTEBOOKS)}, got {unknown[0]!r}")
    verdicts = []
    for one in edition.load(tree.PACKAGE).asked(wanted):
        verdicts.append(run(one.id))
        if progress is not None:
            progress(verdicts[-1])
    return verdicts


def report(verdicts: list[Verdict]) -> str:
    """A table of verdicts as text, with the sums of points.

    Args:
        verdicts: What ``run_all`` returned.
    """
    width = max([len(verdict.symbol) for verdict in verdicts], default=10)
    lines = []
    for verdict in verdicts:
        points = f"{verdict.points:>2} of {verdict.out_of}" if verdict.out_of else "-"
        review = f"+ {verdict.review} for the text" if verdict.review else ""
        state = f"{verdict.state} {verdict.detail}" if verdict.state == "blocked" else verdict.state
        lines.append(f"{verdict.id:>5}  {verdict.symbol:<{width}}  {state:<16}  {points:<8} {review}".rstrip())
    points, out_of = sum(one.points for one in verdicts), sum(one.out_of for one in verdicts)
    review = sum(one.review for one in verdicts)
    lines.append(f"{points} of {out_of} points" + (f", {review} more for texts, given by a person" if review else ""))
    return "\n".join(lines)


def hint(id: str, step: int | None = None) -> None:
    """Print the next hint for an exercise; there are three, from a nudge to nearly the answer.

    Args:
        id: The exercise, ``"1.6"``.
        step: Which of the three; default: the first, and with every call the next.

    Raises:
        ValueError: If there is no such exercise or step.
    """
    print(next_hint(id, step))


def next_hint(id: str, step: int | None = None) -> str:
    """The next hint for an exercise as text; how many were read is kept beside the answers.

    Args:
        id: The exercise.
        step: Which of the three; default: the first, and with every call the next.

    Raises:
        ValueError: If there is no such exercise or step.
    """
    one = exercise(id)
    steps = hints_of(one.id)
    if step is not None and not 1 <= step <= len(steps):
        raise ValueError(f"hint: expected a step from 1 to {len(steps)}, got {step}")
    before = _read_hints()
    step = step or before.get(one.id, 0) + 1
    if step > len(steps):
        return f'{one.id} {one.symbol}: these were all {len(steps)} hints; hint("{one.id}", 2) shows one again'
    _keep_hints({**before, one.id: max(step, before.get(one.id, 0))})
    return f"{one.id} {one.symbol}, hint {step} of {len(steps)}: {steps[step - 1]}"


def _read_hints() -> dict[str, int]:
    """How many hints were read, by exercise: what this process knows and what an earlier one wrote."""
    try:
        kept = json.loads(OPENED.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # nobody's work depends on it
        kept = {}
    kept = kept if isinstance(kept, dict) else {}
    counts = {id: count for id, count in kept.items() if type(count) is int and 0 < count <= STEPS}
    return {id: max(counts.get(id, 0), _opened.get(id, 0)) for id in {**counts, **_opened}}


def _keep_hints(counts: dict[str, int]) -> None:
    _opened.update(counts)
    with contextlib.suppress(OSError):  # a folder that cannot be written to: this process alone remembers
        replace_file(OPENED, json.dumps(counts, indent=1, sort_keys=True) + "\n", who="hint")


def hints_of(id: str) -> list[str]:
    """The three hints of an exercise, in order.

    Args:
        id: The exercise.
    """
    text = (HINTS / f"{NOTEBOOKS[exercise(id).notebook].name}.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(id)}\b.*?$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    steps = re.split(r"^\d\. ", section[1], flags=re.MULTILINE)[1:] if section else []
    return [" ".join(step.split()) for step in steps]


def _shared_runner() -> Runner:
    global _runner
    if _runner is None:
        _runner = Runner()
    return _runner
