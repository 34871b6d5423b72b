"""Whatever a student has written so far, *Run All* ends without a crash, and no cell shows what is out of date."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import shutil
from pathlib import Path
from types import CodeType, SimpleNamespace

import pytest

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.markers import make_stubs
from cs_transformers.course import classroom, notebooks

nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).resolve().parent.parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WRITTEN = [one.id for one in EXERCISES.values() if one.notebook == "01"]

# ---- the first notebook, really run ----


@pytest.mark.parametrize("solved", [2, 3, 4, 5])
def test_the_first_notebook_runs_to_its_end_with_its_first_exercises_written(tmp_path: Path, solved: int) -> None:
    shutil.copytree(ROOT / "cs_transformers", tmp_path / "cs_transformers")
    source = tmp_path / "cs_transformers" / "attention.py"
    stubbed = make_stubs(source.read_text(encoding="utf-8"), "attention.py", keep=tuple(WRITTEN[:solved]))
    source.write_text(stubbed, encoding="utf-8")
    notebook = notebooks.read(PATHS[0])
    for cell in notebook.cells:
        if "\ncheck(" in cell.source:
            cell.source = "pass"  # a process of its own, which takes long and binds nothing
    # Pictures are composed, which is where stale data would crash, but not drawn.
    notebooks.execute(notebook, tmp_path, environment={"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"})
    assert notebooks.errors(notebook) == []
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert f"exercise {WRITTEN[solved]}" in said
    assert f"exercise {WRITTEN[solved - 1]}" not in said
    assert "this cell needs weights, which waits for exercise" in said


# ---- every notebook, every place where a cell may stop, by what its statements read and bind ----


class Statement:
    """What the bytecode of one statement reads and binds at the top level of its cell."""

    def __init__(self, node: ast.stmt) -> None:
        self.line, self.defines = node.lineno, isinstance(node, ast.FunctionDef)
        code = compile(ast.Module([node], []), "cell", "exec")
        self.events = list(events(code))
        self.calls = any(isinstance(child, ast.Call) for child in ast.walk(node)) and not self.defines


def events(code: CodeType) -> list[tuple[str, str]]:
    """Pairs of "read" or "bind" and a name, in order; what functions inside read counts where they are made."""
    found = []
    for one in dis.get_instructions(code):
        if one.opname in ("STORE_NAME", "STORE_GLOBAL"):
            found.append(("bind", one.argval))
        elif one.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            found.append(("read", one.argval))
        elif isinstance(one.argval, CodeType):
            found += [event for event in events(one.argval) if event[0] == "read"]
    return found


class Shell(SimpleNamespace):
    """A kernel whose values are the number of the cell that bound them."""

    def __init__(self, namespace: dict[str, int]) -> None:
        super().__init__(user_ns=namespace, transform_cell=str, events=SimpleNamespace(register=lambda *_: None))

    def set_custom_exc(self, kinds: tuple[type, ...], handler: object) -> None:
        self.kinds, self.handler = kinds, handler

    def showtraceback(self, *_: object, **__: object) -> None:
        raise AssertionError("a traceback was shown")

    def fail(self, statement: Statement, code: str) -> BaseException:
        """Raise in the statement's line, as the kernel would, and hand the error on."""
        try:
            exec(compile("\n" * (statement.line - 1) + code, "cell", "exec"), self.user_ns)
        except self.kinds as error:
            self.user_ns.pop("__builtins__", None)
            self.handler(self, type(error), error, error.__traceback__)
            return error
        raise AssertionError(f"{code} did not fail")


class Course:
    """One notebook; a run of it from a cell on tells which cell's values each cell has read."""

    def __init__(self, path: Path) -> None:
        cells = [cell.source for cell in notebooks.read(path).cells if cell.cell_type == "code"][1:]
        self.sources = [source for source in cells if not source.startswith("%%")]
        self.cells = [[Statement(node) for node in ast.parse(source).body] for source in self.sources]
        self.full: list[dict[str, int]] = []  # before each cell, all being solved
        self.expected: list[dict[str, int]] = []
        namespace: dict[str, int] = {}
        for number, cell in enumerate(self.cells):
            self.full.append(dict(namespace))
            read: dict[str, int] = {}
            for statement in cell:
                self.step(number, statement, namespace, read)
            self.expected.append(read)

    @staticmethod
    def step(number: int, statement: Statement, namespace: dict[str, int], read: dict[str, int]) -> str | None:
        """Run a statement: note what it reads from earlier cells, bind what it binds; a missing name is returned."""
        for kind, name in statement.events:
            if kind == "bind":
                namespace[name] = number
            elif name in namespace:
                if namespace[name] != number:
                    read.setdefault(name, namespace[name])
            elif not hasattr(builtins, name) and not statement.defines:
                return name
        return None

    def stopped(self, first: int, at: int) -> list[str]:
        """Stop a cell at a statement, run those below it, and list the cells that read an older section's value."""
        shell = Shell(dict(self.full[first]))
        stops = classroom.StubStops(shell)
        wrong = []
        for number in range(first, len(self.cells)):
            stops._before(SimpleNamespace(raw_cell=self.sources[number]))
            read: dict[str, int] = {}
            error = None
            for place, statement in enumerate(self.cells[number]):
                if number == first and place == at:
                    error = shell.fail(statement, "raise NotImplementedError('exercise 9.9 is not written yet')")
                elif missing := self.step(number, statement, shell.user_ns, read):
                    error = shell.fail(statement, missing)
                if error:
                    break
            stops._after(SimpleNamespace(error_in_exec=error, success=error is None))
            wrong += [
                f"{name} in cell {number}" for name, owner in read.items() if self.expected[number].get(name) != owner
            ]
        return wrong


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_cell_goes_on_with_what_an_older_section_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "_bound", functools.cache(classroom._bound))  # every cell is looked at often
    course = Course(path)
    places = [
        (number, place)
        for number, cell in enumerate(course.cells)
        for place, statement in enumerate(cell)
        if statement.calls
    ]
    assert len(places) > 30
    wrong = {place: stale for place in places if (stale := course.stopped(*place))}
    assert wrong == {}


def test_the_analysis_sees_a_stale_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom.StubStops, "_take_away", lambda *_: None)
    course = Course(PATHS[0])
    found = {stale for number, cell in enumerate(course.cells) for stale in course.stopped(number, len(cell) - 1)}
    plot = next(number for number, source in enumerate(course.sources) if "the word before" in source)
    assert f"weights in cell {plot}" in found
