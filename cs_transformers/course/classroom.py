"""Inside a notebook: one call that makes it ready, answer cells, and one line instead of a traceback for a stub.

Imported by the first cell of every notebook, so it needs nothing beyond the package's own dependencies.
"""

from __future__ import annotations

import ast
import platform
import re
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
    if in_colab() and "MyDrive" not in course_home().parts:
        home = course_home()
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

    A later cell that needs a name which the stopped cell would have made says so too, instead of failing with a
    NameError that points away from the cause.

    Args:
        shell: The kernel's InteractiveShell.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.source = ""
        self.handled: BaseException | None = None
        self.waiting: dict[str, str] = {}  # name -> the exercise that keeps it from existing
        shell.set_custom_exc((NotImplementedError, NameError), self._handle)
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    def _before(self, info: Any) -> None:
        self.source, self.handled = info.raw_cell or "", None

    def _after(self, result: Any) -> None:
        if self.handled is not None and result.error_in_exec is self.handled:
            result.error_in_exec = None  # the reply says ok, so the frontend runs the next cell
        elif result.success:
            for name in _assigned(self.source):
                self.waiting.pop(name, None)

    def _handle(self, shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        if isinstance(error, NotImplementedError) and (found := re.match(r"exercise (\d+\.\d+)", str(error))):
            exercise = found.group(1)
            frame = traceback.extract_tb(trace)[-1]
            print(f"{error} ({_short(frame.filename)}, line {frame.lineno})")
        elif isinstance(error, NameError) and getattr(error, "name", None) in self.waiting:
            exercise = self.waiting[error.name]
            print(f"this cell needs {error.name}, which waits for exercise {exercise}")
        else:
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        self.handled = error
        self.waiting.update(dict.fromkeys(_assigned(self.source), exercise))


def _assigned(source: str) -> set[str]:
    """Return the names that a cell binds at its top level, imports aside."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell of magics binds nothing that we could wait for
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} | {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef)
    }


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
