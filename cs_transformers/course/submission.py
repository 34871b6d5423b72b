"""Handing in: one zip with a student's answers, notebooks and what the checks say of them.

In a notebook, also in Colab::

    from cs_transformers.course.submission import submit
    submit()

Nothing is sent anywhere and nothing is refused: what looks wrong is named, and the zip is written all the same.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import platform
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cs_transformers.checks import EXERCISES, NOTEBOOKS, Verdict, edition, front, tree
from cs_transformers.checks.edition import Edition
from cs_transformers.checks.markers import UNPARSED, MarkerError, Region, lift, read_source
from cs_transformers.course import classroom, places
from cs_transformers.course.archives import write_zip
from cs_transformers.course.cells import inline_answers, is_notebook

NAME = "submission.zip"
LARGE = 50 << 20  # bytes: beyond it many learning platforms refuse a file


@dataclass
class Collected:
    """What goes into the zip.

    Args:
        files: Content by path.
        texts: Answers to inline questions by exercise.
        notes: What the student should know, a sentence each.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Handed:
    """What was written.

    Args:
        path: The zip.
        verdicts: What the checks say; empty where they were left out.
        unanswered: Inline questions without an answer.
        notes: What the student should know, a sentence each.
        complete: Whether everything that can be checked is right and every question answered.
        home: The copy of the course it was made of.
    """

    path: Path
    verdicts: list[Verdict]
    unanswered: list[str]
    notes: list[str]
    complete: bool
    home: Path

    def summary(self) -> str:
        """What stands below the table of exercises."""
        lines = [f"note: {note}" for note in self.notes]
        if self.unanswered:
            lines.append(f"no answer yet to: {', '.join(self.unanswered)}")
        possible = sum(one.out_of for one in self.verdicts)
        if possible:
            points, review = sum(one.points for one in self.verdicts), sum(one.review for one in self.verdicts)
            share = f"{points} of {possible} automatic points, {100 * points / possible:.0f} %"
            lines.append(share + (f"; {review} more are for texts" if review else ""))
        return "\n".join([*lines, f"made from: {places.which_copy(self.home)}", f"written: {self.path}"])


def submit(
    out: Path | str | None = None,
    *,
    declaration: str | None = None,
    check: bool = True,
    progress: Callable[[Verdict], None] | None = None,
    show: Callable[[list[Verdict]], None] | None = None,
) -> Handed:
    """Check everything, ask what the course wants to know, and write the zip to hand in.

    Args:
        out: The file to write; default: ``submission.zip`` in the folder one stands in.
        declaration: How AI was used, where the course asks for it; default: it is asked for.
        check: Whether to run the checks; without them the zip holds no verdicts.
        progress: Called with each verdict as it comes.
        show: What shows the table; default: it is printed.

    Returns:
        What was written.

    Raises:
        ValueError: If this is the instructor edition.
    """
    home, target = classroom.course_home(), Path(out or NAME)
    target = target / NAME if target.is_dir() else target
    if places.is_instructors(home):
        raise ValueError(
            f"submit: expected a student's copy, got the instructor edition ({places.told(home)}), whose answers are "
            "the solutions; `make student` writes a copy into work/: go there (cd work) and submit again"
        )
    release = edition.load(home / tree.PACKAGE_NAME)
    collected = collect(home, release)
    verdicts = front.run_all(progress=progress) if check else []
    if verdicts:
        (show or (lambda rows: print(front.report(rows))))(verdicts)
    said = declared(release, declaration, collected.notes)
    asked = [id for id in release.open if EXERCISES[id].rubric]
    unanswered = [id for id in asked if classroom.is_blank(collected.texts.get(id, ""))]
    collected.files["manifest.json"] = manifest(collected, release, verdicts, said)
    path = write_zip(target.resolve(), collected.files)
    if path.stat().st_size > LARGE:
        collected.notes.append(f"the zip has {path.stat().st_size >> 20} MB; clear the outputs of large notebooks")
    right = all(one.passed for one in verdicts if one.out_of) and bool(verdicts)
    handed = Handed(path, verdicts, unanswered, collected.notes, right and not unanswered, home)
    if show is None:
        print(handed.summary())
    _offer(path)
    return handed


def collect(home: Path, release: Edition) -> Collected:
    """Gather what is handed in.

    Args:
        home: Folder of the course.
        release: What this edition hands out.

    Returns:
        Files and notes; what cannot be read is noted and goes in as it is.
    """
    collected = Collected()
    sources = tree.pristine_sources(home / tree.PACKAGE_NAME)
    for file in dict.fromkeys(EXERCISES[id].file for id in release.open if EXERCISES[id].file):
        path, name = home / tree.PACKAGE_NAME / file, f"{tree.PACKAGE_NAME}/{file}"
        try:
            text = read_source(path)
            lost = [one for one in lift(sources.get(file, ""), file) if one not in lift(text, file)]
            if lost:
                raise MarkerError(file, 0, f"the marker lines of {', '.join(lost)} are missing")
            collected.files[name] = reduced(text, file).encode()
        except MarkerError as error:
            where = f"{file}, line {error.line}" if error.line else file
            collected.notes.append(
                f"{where}: {error.problem}; {file} is handed in as it is, and its answers may not be found"
            )
            collected.files[name] = path.read_bytes()
        except FileNotFoundError:
            collected.notes.append(f"{file} is missing; take it again from the zip that you were given")
        except (OSError, ValueError) as error:
            collected.notes.append(f"{error}; {file} is handed in as it is")
            collected.files[name] = path.read_bytes()
    for number in release.notebooks:
        path = home / "notebooks" / f"{NOTEBOOKS[number].name}.ipynb"
        if path.is_file():
            collected.files[f"notebooks/{path.name}"] = path.read_bytes()
            if not is_notebook(path.read_bytes()):
                collected.notes.append(f"{path.name} cannot be read as a notebook; it is handed in as it is")
    collected.texts = texts(home, collected.notes)
    for id, text in collected.texts.items():
        if not classroom.is_blank(text):
            collected.files[f"answers/{id}.md"] = text.strip().encode() + b"\n"
    return collected


def reduced(text: str, path: str) -> str:
    r"""A source with its answer regions and the functions they stand in, every line in its place; it parses.

    Args:
        text: The source.
        path: What messages call it.

    Raises:
        MarkerError: If a marker breaks the grammar.

    Example:
        >>> reduced("def f():\n  x = 1\n  ### BEGIN ANSWER 1.4\n  return 1\n  ### END ANSWER 1.4\n", "a.py")
        'def f():\n\n  ### BEGIN ANSWER 1.4\n  return 1\n  ### END ANSWER 1.4\n'
    """
    lines, regions = text.splitlines(), list(lift(text, path).values())
    kept = {number for region in regions for number in range(region.first, region.last + 1)}
    answered = [region for region in regions if region.indent and _says_something(region.body)]
    kept |= _headers(lines, answered)
    shown = [line if number in kept else "" for number, line in enumerate(lines, start=1)]
    return "\n".join(shown).rstrip() + "\n"


def _headers(lines: list[str], regions: list[Region]) -> set[int]:
    """Numbers of the lines from ``class`` or ``def`` to the colon, around regions whose bodies are set aside."""
    skeleton = list(lines)
    for region in regions:
        inside = range(region.first, region.last - 1)
        for index in inside:
            skeleton[index] = f"{region.indent}pass" if index == inside[0] else ""
    try:
        nodes = list(ast.walk(ast.parse("\n".join(skeleton))))
    except UNPARSED:  # something else is broken there: the regions alone can be read all the same
        return set()
    return {
        number
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and any(node.lineno < region.first <= (node.end_lineno or 0) for region in regions)
        for number in range(node.lineno, node.body[0].lineno)
    }


def _says_something(body: str) -> bool:
    try:
        return bool(ast.parse(textwrap.dedent(body)).body)
    except UNPARSED:
        return True


def texts(home: Path, notes: list[str]) -> dict[str, str]:
    """Answers to inline questions: those that were run, and those that only stand in a notebook.

    An answer that stands in a notebook alone is kept in ``answers/`` from now on. Where both differ the newer file
    counts, and a note says so.

    Args:
        home: Folder of the course.
        notes: Gets what the student should know.

    Returns:
        Text by exercise.
    """
    found = {
        path.stem: path.read_text(encoding="utf-8-sig", errors="replace")
        for path in sorted((home / "answers").glob("*.md"))
        if path.stem in EXERCISES
    }
    for path in sorted((home / "notebooks").glob("*.ipynb")):
        for id, text in inline_answers(path.read_bytes()).items():
            before = found.get(id, "")
            if id not in EXERCISES or classroom.is_blank(text) or text.strip() == before.strip():
                continue
            kept = home / "answers" / f"{id}.md"
            if classroom.is_blank(before):
                notes.append(f"{id}: the answer in {path.name} was not run; it is taken from the notebook")
                found[id] = text
                classroom.write_answer(id, text, home)
            elif kept.stat().st_mtime < path.stat().st_mtime:
                notes.append(f"{id}: the cell in {path.name} was changed and not run since; the cell is handed in")
                found[id] = text
            else:
                notes.append(f"{id}: answers/{id}.md is newer than {path.name} and differs; the file is handed in")
    return found


def declared(release: Edition, given: str | None, notes: list[str]) -> str:
    """What the student declares on the use of AI, asked for where the course has a policy and somebody is there.

    Args:
        release: What this edition hands out.
        given: The declaration, or None.
        notes: Gets a note where it is missing.
    """
    if not release.policy:
        return given or ""
    if given is None and _somebody_is_there():
        print(f"What this course says about the use of AI:\n\n{textwrap.indent(release.policy, '  ')}\n")
        try:
            given = input("Your declaration, in one line (none is an answer too): ")
        except (EOFError, OSError, NotImplementedError, RuntimeError):
            given = None
    if not (given or "").strip():
        how = 'submit(declaration="...")' if _in_a_notebook() else 'cst submit --declaration "..."'
        notes.append(
            f"the declaration on the use of AI is missing; this course asks for it (AI_POLICY.md): {how} gives it, "
            'also "none"'
        )
    return (given or "").strip()


def _in_a_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return get_ipython() is not None


def _somebody_is_there() -> bool:
    if _in_a_notebook():
        return True
    return sys.stdin is not None and sys.stdin.isatty()


def manifest(collected: Collected, release: Edition, verdicts: list[Verdict], declaration: str) -> bytes:
    """The list of what is in the zip. Graders show it; they believe none of it.

    Args:
        collected: What is handed in.
        release: The edition it was made with.
        verdicts: What the checks say here.
        declaration: How AI was used.
    """
    import numpy
    import torch

    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    record = {
        "course": release.course,
        "release": release.id,
        "versions": {**versions, "platform": platform.platform()},
        "hashes": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(collected.files.items())},
        "verdicts": {one.id: one.state for one in verdicts},
        "declaration": declaration,
        "written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
    return json.dumps(record, indent=1, ensure_ascii=False).encode()


def _offer(path: Path) -> None:
    """Let Colab's browser download the zip."""
    if classroom.in_colab():
        from google.colab import files

        files.download(str(path))
