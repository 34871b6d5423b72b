"""Results for Gradescope: one ``results.json`` per student, and the two scripts that grade there.

Fields as Gradescope documents them (https://gradescope-autograders.readthedocs.io/en/latest/specs/). What people
decided appears when the instructor publishes; what is for the instructor alone stays hidden.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from cs_transformers.checks.edition import RELEASE
from cs_transformers.files import replace_file

from .feedback import WORDS, sentences
from .gradebook import summary
from .model import AWAITING, Classroom, Student
from .released import read_release
from .scores import ABSENT, UNGRADED, Row, Sheet, known, sheets
from .texts import file_names, inert, number, one_line
from .withheld import screen

FOLDER = "results"
VISIBLE, PUBLISHED, HIDDEN = "visible", "after_published", "hidden"
NOT_YOURS = "that is not your fault, and your instructor sees why"
SHOWN = 40  # repairs and the like; Gradescope shows them all at once


def write(classroom: Classroom, out: Path) -> list[Path]:
    """Write every student's ``results.json``; those of an earlier run that nobody has any more go.

    Args:
        classroom: The class.
        out: Folder of the grades.

    Returns:
        The files.
    """
    names, all_sheets, folder = file_names(classroom.students), sheets(classroom), out / FOLDER
    for old in folder.glob("*.json"):
        if old.stem not in names.values():
            old.unlink()
    files = []
    for id, student in classroom.students.items():
        text = json.dumps(results(student, all_sheets[id], classroom), indent=1, ensure_ascii=False) + "\n"
        files.append(replace_file(folder / f"{names[id]}.json", text))
    return files


def results(student: Student, sheet: Sheet, classroom: Classroom) -> dict[str, Any]:
    """What Gradescope reads of one student.

    Args:
        student: Who.
        sheet: Their points.
        classroom: The class.
    """
    tests = []
    if sheet.status not in (ABSENT, UNGRADED):
        for row in sheet.rows:
            tests += [_code(row)] if row.out_of else []
            tests += [_text(row)] if row.text_out_of else []
    tests += [_correction(student)] if student.adjustments else []
    return {
        "score": sheet.total,
        "output": _overview(student, sheet),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": VISIBLE,
        "stdout_visibility": HIDDEN,
        "extra_data": {
            "status": sheet.status,
            "awaiting": sheet.awaiting,
            "versions": {one_line(name): one_line(value) for name, value in classroom.versions.items()},
        },
        "tests": [*tests, _for_the_instructor(student, sheet, classroom)],
    }


def _overview(student: Student, sheet: Sheet) -> str:
    lines = [summary(sheet)]
    if not sheet.final and sheet.reason:
        lines.append(f"{sheet.status}: {one_line(sheet.reason)}" + (f"; {NOT_YOURS}" if sheet.trouble else ""))
    if student.submission and student.submission.repairs:
        lines += ["mended to read your submission (no points were taken):", *_listed(student.submission.repairs)]
    if student.submission and student.submission.changes:
        lines += ["changed outside the answers, without effect:", *_listed(student.submission.changes)]
    return "\n".join(screen(lines))


def _listed(sentences_: tuple[str, ...]) -> list[str]:
    more = [f"... and {len(sentences_) - SHOWN} more"] if len(sentences_) > SHOWN else []
    return [f"* {one_line(one)}" for one in sentences_[:SHOWN]] + more


def _code(row: Row) -> dict[str, Any]:
    diagnosis = [one_line(one) for one in row.record.diagnosis] if row.record else []
    return {
        "score": row.points,
        "max_score": row.out_of,
        "status": "passed" if row.state == "passed" else "failed",
        "name": f"{row.exercise} {row.symbol}",
        "number": row.exercise,
        "output": "\n".join([WORDS.get(row.state, row.state), *diagnosis, *sentences(row)]),
        "tags": [row.state] if row.state else [],
        "visibility": VISIBLE,
    }


def _text(row: Row) -> dict[str, Any]:
    test: dict[str, Any] = {"name": f"{row.exercise} text", "number": row.exercise, "visibility": VISIBLE}
    if row.mark is None:
        waiting = row.text_state == AWAITING
        note = f"a person still has to read it; up to {row.text_out_of} points" if waiting else ""
        output = [WORDS[row.text_state], *([note] if note else [])]
        # No score: Gradescope would add a 0, and an answer that nobody has read is not worth 0.
        return {**test, "output": "\n".join(output), "tags": [row.text_state]}
    items = [f"{'[x]' if item in row.mark.items else '[ ]'} {item}" for item in known(row.exercise).rubric]
    comment = [inert(row.mark.comment)] if row.mark.comment else []
    scored = {"score": row.text_points, "max_score": row.text_out_of, "output": "\n".join([*items, *comment])}
    passed = {"status": "passed" if row.text_points >= row.text_out_of else "failed", "tags": [row.text_state]}
    return {**test, **scored, **passed, "visibility": PUBLISHED}


def _correction(student: Student) -> dict[str, Any]:
    lines = [f"{one.exercise or 'the whole'}: {number(one.points)}. {inert(one.reason)}" for one in student.adjustments]
    return {
        "name": "corrections by the instructor",
        "score": sum(one.points for one in student.adjustments),
        "output": "\n".join(lines),
        "visibility": PUBLISHED,
    }


def _for_the_instructor(student: Student, sheet: Sheet, classroom: Classroom) -> dict[str, Any]:
    """What only staff sees: what the grader failed on, how answers were isolated, what was stopped, what nbval says."""
    lines = [f"not graded: {one_line(sheet.trouble)}"] if sheet.trouble else []
    lines += [f"isolation: {one_line(classroom.tier) or 'unknown'}"]
    if student.submission:
        lines += [f"taken in: {one_line(student.submission.source)}, {student.attempts} attempt(s)"]
        lines += [f"taking in: {one_line(one)}" for one in student.submission.incidents[:SHOWN]]
    lines += [
        f"{record.exercise}: {one_line(record.incident)}" for record in student.records.values() if record.incident
    ]
    for run in student.notebooks.values():
        lines += [f"{run.notebook}: {one_line(run.problem)}"] if run.problem else []
    return {"name": "for the instructor", "output": "\n".join(lines), "visibility": HIDDEN}


SETUP = """#!/usr/bin/env bash
# Runs once, when Gradescope builds the image: Python packages, and bubblewrap for the notebooks.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends python3 python3-venv bubblewrap
python3 -m venv /autograder/venv
/autograder/venv/bin/pip install --no-cache-dir 'torch>=2.6' 'torchvision>=0.21' \\
  --index-url https://download.pytorch.org/whl/cpu
/autograder/venv/bin/pip install --no-cache-dir 'numpy>=1.24' 'scipy>=1.10' 'matplotlib>=3.7' 'h5py>=3.8' \\
  'pillow>=9.4' 'ipython>=7.34' 'tqdm>=4.64' 'typer>=0.12' 'rich>=13.0' 'jinja2>=3.1' 'markdown-it-py>=3.0'
# Only root reads the solutions; answers run under another user.
chmod -R go-rwx /autograder/source
"""
RUN = """#!/usr/bin/env bash
# Runs for each submission. What it prints is for the instructor only.
set -euo pipefail
cd /autograder/source
export PYTHONPATH=/autograder/source OMP_NUM_THREADS=1 MPLBACKEND=Agg
/autograder/venv/bin/python -m cs_transformers.grading.gradescope /autograder
"""


def autograder_files() -> dict[str, str]:
    """The two scripts that Gradescope wants at the root of an autograder's zip, beside the package.

    Returns:
        Texts by file name; ``run_autograder`` has to be executable.
    """
    return {"setup.sh": SETUP, "run_autograder": RUN}


def run(home: Path) -> Path:
    """Grade the one submission of a Gradescope container.

    Args:
        home: ``/autograder``.

    Returns:
        The ``results.json`` that Gradescope reads.

    Raises:
        ValueError: If there is no submission.
    """
    from .run import grade

    submission = home / "submission"
    if not submission.is_dir():
        raise ValueError(f"gradescope: expected a submission in {submission}, found none; run it where Gradescope does")
    with tempfile.TemporaryDirectory(prefix="cst-gradescope-") as scratch:
        class_folder, out = Path(scratch) / "class", Path(scratch) / "grades"
        # Links are copied as links: taking in refuses them, following them here would not.
        shutil.copytree(submission, class_folder / _student(home / "submission_metadata.json"), symlinks=True)
        classroom = grade(class_folder, out, only=_released(home / "source" / RELEASE), nbval=False)
        (written,) = write(classroom, out)
        return replace_file(home / "results" / "results.json", written.read_bytes())


def _released(release: Path) -> tuple[str, ...]:
    """The exercises of the edition that was handed out; all where the autograder knows of none."""
    return read_release(release).open if release.is_file() else ()


def _student(metadata: Path) -> str:
    """A folder name for whoever handed in, from what Gradescope says."""
    try:
        users = json.loads(metadata.read_text(encoding="utf-8"))["users"]
        id = str(users[0].get("email") or users[0]["id"])
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        id = "student"
    return file_names([id])[id]


if __name__ == "__main__":
    print(run(Path(sys.argv[1] if len(sys.argv) > 1 else "/autograder")))
