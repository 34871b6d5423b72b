"""nbval as a second opinion: the instructor's notebooks, re-executed on a student's mended tree.

The mended tree has the student's answers where they passed and the solutions elsewhere, so one mistake stops nothing
else. What nbval says gives no points; where it disagrees with the checks, the instructor is told.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cs_transformers.checks import EXERCISES, NOTEBOOKS, scratch, tree

from . import enclosure, nbval_report
from .judging import Judge, trains
from .model import NotebookRun, Submission

CELL_SECONDS = 120
NOTEBOOK_SECONDS = 420  # beyond it a notebook is stopped, whatever its cells' limits
NAME_LIMIT, MOST_CELLS = 200, 2000  # whoever writes into the report fills no memory
SANITIZE = "nbval_sanitize.cfg"
_CHECK = re.compile(r"^\s*check\(\s*['\"](\d+\.\d+)['\"]", re.MULTILINE)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "mistakes", "grading", "cli", "*.zip")


@dataclass
class Prepared:
    """A notebook as it is re-executed: what trains is left out, and what needs it.

    Args:
        name: Its stem, ``01_attention``.
        text: Its JSON.
        cells: Ids of its code cells, in order.
        checks: Exercise by the id of its check cell.
    """

    name: str
    text: str
    cells: list[str]
    checks: dict[str, str]


def prepare(path: Path) -> Prepared:
    """Read one of the instructor's notebooks and leave out the cells that train.

    Args:
        path: The notebook, with its outputs.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept, lost = [], set()
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        bound, used = _names(source)
        check = _CHECK.search(source)
        training = "train" in cell["metadata"].get("tags", []) or bool(check and trains(check[1]))
        if training or used & lost:
            lost |= bound
        else:
            lost -= bound
            kept.append(cell)
    notebook["cells"] = kept
    checks = {cell["id"]: found[1] for cell in kept if (found := _CHECK.search("".join(cell["source"])))}
    return Prepared(path.stem, json.dumps(notebook), [cell["id"] for cell in kept], checks)


def _names(source: str) -> tuple[set[str], set[str]]:
    """Names that a cell binds at its top level, and names that it reads without having bound them before."""
    try:
        parsed = ast.parse(source)
    except SyntaxError:  # a cell of magics
        return set(), set()
    bound, used = set(), set()
    for statement in parsed.body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        used |= {node.id for node in names if isinstance(node.ctx, ast.Load)} - bound
        bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        bound |= {statement.name} if isinstance(statement, ast.FunctionDef) else set()
    return bound, used


class NotebookStage:
    """Re-executes the instructor's notebooks on mended trees.

    Args:
        judge: Knows the solutions.
        folder: Where the instructor's notebooks lie.
        cell_seconds: Limit of one cell.
        notebook_seconds: Limit of one notebook.
    """

    def __init__(
        self,
        judge: Judge,
        folder: Path = tree.PACKAGE.parent / "notebooks",
        *,
        cell_seconds: float = CELL_SECONDS,
        notebook_seconds: float = NOTEBOOK_SECONDS,
    ) -> None:
        self.judge, self.folder = judge, folder
        self.cell_seconds, self.notebook_seconds = cell_seconds, notebook_seconds
        names = {notebook.name for notebook in NOTEBOOKS.values()}
        paths = sorted(path for path in folder.glob("*.ipynb") if path.stem in names)
        self.notebooks = {path.stem: prepare(path) for path in paths}

    def wanted(self, passed: Iterable[str], exercises: Iterable[str]) -> list[str]:
        """Notebooks that say something about a student: those with a check cell of an exercise that passed.

        Args:
            passed: Exercises that passed.
            exercises: Exercises that are graded.
        """
        own = set(passed) & set(exercises)
        return [name for name, notebook in self.notebooks.items() if own & set(notebook.checks.values())]

    def digest(self, submission: Submission, passed: Iterable[str], name: str) -> str:
        """What a notebook's run depends on.

        Args:
            submission: Whose answers stand in the tree.
            passed: Exercises whose own answer stands.
            name: The notebook.
        """
        text = self.notebooks[name].text
        parts = [submission.digest, self.judge.grader_digest, name, text, *sorted(passed)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def run(
        self,
        submission: Submission,
        passed: list[str],
        names: list[str],
        done: Callable[[NotebookRun], None] = lambda _run: None,
    ) -> list[NotebookRun]:
        """Run notebooks on a student's mended tree.

        A notebook whose run tears the whole process down costs itself; the others are run in another one.

        Args:
            submission: What was handed in.
            passed: Exercises whose own answer stands in the tree.
            names: Notebooks.
            done: Called with each notebook's run.
        """
        found: list[NotebookRun] = []
        with scratch.folder("nbval") as made:
            folder = Path(made).resolve()
            self._write_tree(folder, submission, passed)
            left = list(names)
            while left:
                runs = self._execute(folder, left)
                for run in runs:
                    digest = self.digest(submission, passed, run.notebook)
                    found.append(replace(run, student=submission.person.id, digest=digest))
                    done(found[-1])
                    left.remove(run.notebook)
        return found

    def _write_tree(self, folder: Path, submission: Submission, passed: list[str]) -> None:
        package = folder / tree.PACKAGE_NAME
        shutil.copytree(self.judge.package, package, ignore=_LEFT_OUT)
        with scratch.folder("tree") as aside:
            mended = tree.rebuild(Path(aside), self.judge.sources, self.judge.mended(submission, passed))
            for file in sorted({one.file for one in EXERCISES.values() if one.file}):
                shutil.copyfile(mended / tree.PACKAGE_NAME / file, package / file)
        (folder / "notebooks").mkdir()
        for notebook in self.notebooks.values():
            (folder / "notebooks" / f"{notebook.name}.ipynb").write_text(notebook.text, encoding="utf-8")
        if (self.folder / SANITIZE).is_file():
            shutil.copyfile(self.folder / SANITIZE, folder / "notebooks" / SANITIZE)
        shutil.copyfile(nbval_report.__file__, folder / "cst_nbval_report.py")
        (folder / "home").mkdir()
        for path in (folder, *folder.rglob("*")):
            path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))

    def _execute(self, folder: Path, names: list[str]) -> list[NotebookRun]:
        """Run notebooks in one process, as many as it lives through, at least one."""
        report = _Report(names)
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "cst_nbval_report", "-p", "no:cacheprovider", "-p", "no:xdist",
            "-W", "default", "-c", os.devnull, "--rootdir", str(folder), "--tb=no",
            "--nbval", "--nbval-current-env", f"--nbval-cell-timeout={self.cell_seconds:g}",
        ]  # fmt: skip
        if (folder / "notebooks" / SANITIZE).is_file():
            command += ["--nbval-sanitize-with", f"notebooks/{SANITIZE}"]
        command += [f"notebooks/{name}.ipynb" for name in names]
        seconds = self.notebook_seconds * len(names)
        end = enclosure.run(
            command, folder, seconds=seconds, environment=_environment(folder), report=nbval_report.REPORT,
            receive=report.take,
        )  # fmt: skip
        return [self._judged(name, report, end) for name in report.finished(names)]

    def _judged(self, name: str, report: _Report, end: str) -> NotebookRun:
        prepared, outcomes = self.notebooks[name], report.cells.get(name, {})
        cells, over = {}, ""
        for cell in prepared.cells:
            outcome = outcomes.get(cell, "missing")
            cells[cell] = outcome if not over else "missing" if outcome == "passed" else outcome
            if outcome in ("timeout", "crashed", "missing"):
                over = over or f"cell {cell}: {_REASONS[outcome]}"
        if over and not outcomes:
            over = "it did not end in time" if end == "timeout" else "its process died before the first cell ended"
        verdicts = {exercise: cells[cell] for cell, exercise in prepared.checks.items()}
        return NotebookRun("", name, cells, verdicts, over)


_REASONS = {
    "timeout": "it ran into the limit; nothing behind it counts",
    "crashed": "the kernel died; nothing behind it counts",
    "missing": "there is no report of it; nothing behind it counts",
}


@dataclass
class _Report:
    """What the plugin said, line by line; students' code may have written into it, so everything is checked."""

    names: list[str]
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    whole: bool = False
    _rest: bytes = b""

    def take(self, part: bytes) -> None:
        lines = (self._rest + part)[-(1 << 20) :].split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                self._note(event)

    def _note(self, event: dict) -> None:
        kind, name = event.get("event"), event.get("notebook")
        if kind == "whole":
            self.whole = True
        elif kind == "starts":
            name = Path(str(event.get("node")).partition("::")[0]).stem
            if name in self.names and name not in self.begun:
                self.begun.append(name)
        elif kind == "ends" and name in self.names:
            cell, outcome = event.get("cell"), event.get("outcome")
            seen = self.cells.setdefault(name, {})
            if isinstance(cell, str) and isinstance(outcome, str) and len(cell) < NAME_LIMIT and len(seen) < MOST_CELLS:
                seen.setdefault(cell, outcome[:NAME_LIMIT])  # what was said first stands

    def finished(self, names: list[str]) -> list[str]:
        """Notebooks that need no other run: all if the report is whole, else those that have begun."""
        if self.whole:
            return list(names)
        return [name for name in names if name in self.begun] or names[:1]


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "CST_CACHE_DIR": str(folder / "cache"),
        "TMPDIR": str(folder / "home"),
        "CST_ENCLOSURE": str(folder),
    }
