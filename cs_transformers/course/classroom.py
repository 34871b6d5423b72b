"""Inside a notebook: one call that makes it ready, answer cells, and one line instead of a traceback for a stub.

Imported by the first cell of every notebook, so it needs nothing beyond the package's own dependencies.
"""

from __future__ import annotations

import ast
import platform
import re
import symtable
import sys
import traceback
from pathlib import Path
from typing import Any

import cs_transformers
from cs_transformers.files import replace_file

OLDEST = {"python": (3, 10), "torch": (2, 6)}
ANSWER_ID = re.compile(r"\d{1,2}\.\d{1,2}")
EMPTY_ANSWER = "*Your answer, in one to five sentences.*"


def course_home() -> Path:
    """Return the folder that holds the package: answers and notebooks lie beside it."""
    return Path(cs_transformers.__file__).resolve().parent.parent


def start(notebook: str) -> None:
    """Make the running notebook ready: reload edited files, answer cells, quiet stubs, readable plots.

    Args:
        notebook: Number of the notebook, such as ``"01"``.

    Raises:
        RuntimeError: If Python or torch is older than the course needs.
    """
    import torch
    from IPython import get_ipython

    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name, oldest in OLDEST.items():
        if _numbers(versions[name]) < oldest:
            wanted = ".".join(map(str, oldest))
            raise RuntimeError(f"this course needs {name} {wanted} or newer, found {versions[name]}: update {name}")
    shell = get_ipython()
    if shell is not None:
        _prepare(shell)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(
        f"notebook {notebook} is ready: python {versions['python']}, torch {versions['torch'].split('+')[0]}, {device}"
    )
    if in_colab():
        _say_where(course_home())


def _say_where(home: Path) -> None:
    if "MyDrive" in home.parts:
        print(f"Your work is in {home}, on your Google Drive: it stays when the session ends.")
    else:
        print(f"Your work is in {home}, which Colab deletes when the session ends. To keep it, set USE_DRIVE = True")
        print(f"above before you begin, or copy it once Drive is mounted: !cp -r {home} drive/MyDrive/")


def in_colab() -> bool:
    """Whether this is a notebook of Google Colab."""
    return "google.colab" in sys.modules


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _prepare(shell: Any) -> None:
    """Install reloading, the answer magic, the stub handler and the plot style; a second time changes nothing."""
    from cs_transformers import plots

    plots.use_style()
    if getattr(shell, "_cst_stops", None) is not None:
        return
    shell._cst_stops = StubStops(shell)
    shell.run_line_magic("load_ext", "autoreload")
    shell.run_line_magic("autoreload", "2")
    shell.register_magic_function(answer, magic_kind="cell", magic_name="answer")


class StubStops:
    """Turns a stub's NotImplementedError into one line, and lets *Run All* go on.

    The names that the stopped cell would have bound are taken away, lest a later cell go on with what an earlier
    section left under the same name. A later cell that needs one of them says so, instead of failing with a NameError
    that points away from the cause. Before the stopped cell runs again it gets back what was taken away: it may read
    a name before it binds it.

    Args:
        shell: The kernel's InteractiveShell.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cell, self.source = "", ""
        self.handled: BaseException | None = None
        self.waiting: dict[str, str] = {}  # name -> the exercise that keeps it from existing
        self.aside: dict[str, tuple[str, Any]] = {}  # name -> the cell that took it away, what it was
        self.lent: dict[str, Any] = {}  # what the running cell got back
        shell.set_custom_exc((NotImplementedError, NameError), self._handle)
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    def _before(self, info: Any) -> None:
        raw, self.handled = info.raw_cell or "", None
        try:
            self.source = self.shell.transform_cell(raw)  # lines of magics become Python, as the traceback counts them
        except Exception:  # IPython itself will say what is wrong with it
            self.source = ""
        self.cell = getattr(info, "cell_id", None) or raw  # not every frontend numbers its cells
        names, own = self.shell.user_ns, {name for name, (cell, _) in self.aside.items() if cell == self.cell}
        self.lent = {name: self.aside[name][1] for name in own if name not in names}
        names.update(self.lent)

    def _after(self, result: Any) -> None:
        if result.success:
            for name in _bound(self.source):
                self.waiting.pop(name, None)
                self.aside.pop(name, None)
            return
        for name, value in self.lent.items():  # what the cell did not renew is as old as before
            if self.shell.user_ns.get(name, self) is value:
                del self.shell.user_ns[name]
        if self.handled is not None and result.error_in_exec is self.handled:
            result.error_in_exec = None  # the reply says ok, so the frontend runs the next cell

    def _handle(self, shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        frames = list(traceback.walk_tb(trace))
        if isinstance(error, NotImplementedError) and (found := re.match(r"exercise (\d+\.\d+)", str(error))):
            exercise = found.group(1)
            print(f"{error} ({_short(frames[-1][0].f_code.co_filename)}, line {frames[-1][1]})")
        elif self._is_missed(error) and frames[-1][0].f_globals is shell.user_ns:
            exercise = self.waiting[error.name]
            print(f"this cell needs {error.name}, which waits for exercise {exercise}")
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        self.handled = error
        self._take_away(exercise, next((line for frame, line in frames if frame.f_globals is shell.user_ns), 0))

    def _is_missed(self, error: BaseException) -> bool:
        return isinstance(error, NameError) and getattr(error, "name", None) in self.waiting

    def _take_away(self, exercise: str, line: int) -> None:
        """Remove what the cell that stopped in a line would have bound from there on."""
        for name in _bound(self.source, line):
            self.waiting[name] = exercise
            if name in self.shell.user_ns:
                self.aside[name] = (self.cell, self.shell.user_ns.pop(name))


def _bound(source: str, line: int = 0) -> set[str]:
    """Return the names that a cell binds from the statement in a line on, imports aside.

    Names that the cell has bound before are among them where a later statement goes on filling them.
    """
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set()
    done = [statement for statement in statements if (statement.end_lineno or 0) < line]
    left = statements[len(done) :]
    before = set().union(*map(_names, done))
    bound = set().union(*map(_names, left)) | (before & set().union(*map(_filled, left)))
    return {name for name in bound if not name.startswith("_")}  # IPython has a use of its own for those


def _names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds for later cells: none from inside a function or a comprehension."""
    table = symtable.symtable(ast.unparse(statement), "cell", "exec")
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}


def _filled(statement: ast.stmt) -> set[str]:
    """Return the names of what a statement may change without binding it, as ``a[0] = 1`` and ``a.append(1)`` do."""
    changed: list[ast.AST] = []
    for node in ast.walk(statement):
        match node:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                changed.append(node)
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)):  # called for its effect
                changed.append(method)
            case ast.For():  # the loop may fill what it goes over
                changed += [child for child in ast.walk(node.iter) if isinstance(child, ast.Name)]
    return {root.id for root in map(_root, changed) if isinstance(root, ast.Name)}


def _root(node: ast.AST) -> ast.AST:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _short(filename: str) -> str:
    """Return a path below the course's folder, or the bare name: no path of this machine."""
    path = Path(filename)
    try:
        return path.resolve().relative_to(course_home()).as_posix()
    except ValueError:
        return path.name


def answer(line: str, cell: str) -> None:
    """``%%answer 6.2``: show the text of the cell as Markdown and keep it in ``answers/6.2.md``.

    A cell that is still empty, such as that of a notebook opened anew, replaces no answer.

    Args:
        line: The question's id.
        cell: The answer, in Markdown.

    Raises:
        ValueError: If the id does not look like one.
    """
    from IPython.display import Markdown, display

    question = line.strip()
    if not ANSWER_ID.fullmatch(question):
        raise ValueError(f"%%answer expected the id of a question, such as %%answer 6.2, got {question!r}")
    kept = course_home() / "answers" / f"{question}.md"
    if is_blank(cell) and kept.is_file() and not is_blank(before := kept.read_text(encoding="utf-8", errors="replace")):
        display(Markdown(before.strip()))
        print(f"{question}: this cell is empty; your answer from before stays in answers/{question}.md")
        return
    write_answer(question, cell)
    display(Markdown(cell.strip() or EMPTY_ANSWER))
    if is_blank(cell):
        print(f"{question}: no answer yet")


def is_blank(text: str) -> bool:
    """Whether an inline answer says nothing: empty, or the text that stands there at first.

    Args:
        text: The answer.

    Example:
        >>> is_blank(EMPTY_ANSWER + " "), is_blank("Two heads look at two places.")
        (True, False)
    """
    return text.strip() in ("", EMPTY_ANSWER)


def write_answer(question: str, text: str, home: Path | None = None) -> Path:
    """Keep an answer beside the notebooks; the file is replaced as a whole or not at all.

    Args:
        question: Id of the question, such as ``"6.2"``.
        text: The answer, in Markdown.
        home: Folder of the course; default: that of this package.

    Returns:
        The file written.
    """
    folder = (home or course_home()) / "answers"
    return replace_file(folder / f"{question}.md", text.strip() + "\n")
