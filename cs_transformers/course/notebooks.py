"""Notebooks as files: the set-up cell they share, one normal form, and their execution.

nbformat, nbclient and nbconvert come with the extra ``notebooks``; they are imported where they are used, since a
student's kernel needs none of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cs_transformers.files import replace_file

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"}
CELL_SECONDS = 300

# The first cell of every notebook. It runs before the package can be imported, hence its own few lines.
SETUP_CELL = """\
# NBVAL_IGNORE_OUTPUT
# Set-up: finds the course on this machine or in Colab. Safe to run again.
import io, os, pathlib, shutil, sys, urllib.request, zipfile
RELEASE_URL, FOLDER = "", "transformers"  # Colab: where the course comes from, the folder it gets
USE_DRIVE = False                         # Colab: True keeps your work on your Google Drive
here, name, package = pathlib.Path.cwd(), str(FOLDER), "cs_transformers/__init__.py"
if USE_DRIVE and "google.colab" in sys.modules:
    from google.colab import drive; drive.mount(str(here / "drive"))
base = next((p for p in [here / "drive" / "MyDrive"] if p.is_dir()), here)  # on Drive wherever it is mounted
places = [base / name, here / name, here, *here.parents, base / "cs_transformers", here / "cs_transformers"]
home = next((p for p in places if (p / package).is_file()), None)
lost = f"expected {package} in {here}, above it or in {base / name}; found {sorted(os.listdir(base))[:9]}"
if home is None and RELEASE_URL:  # unpacked aside and renamed when whole: nothing of yours is overwritten
    part, lost = base / f"{name}.part", f"found no course in {RELEASE_URL}"; shutil.rmtree(part, ignore_errors=True)
    try:
        zipfile.ZipFile(io.BytesIO(urllib.request.urlopen(RELEASE_URL, timeout=60).read())).extractall(part)
        home = next((p.parents[1].rename(base / name) for p in part.rglob(package)), None)
    except Exception as error:
        lost = f"could not get the course from {RELEASE_URL} ({error})"
    shutil.rmtree(part, ignore_errors=True)
if home is None:
    raise FileNotFoundError(f"{lost}: try again, ask your instructor, or upload the zip, unpack it and set FOLDER")
sys.path[:0] = [] if str(home) in sys.path else [str(home)]
from cs_transformers.course.classroom import start; start("{notebook}")
"""


class StoppedError(ChildProcessError):
    """A notebook that could not be run to its end; the message names the cell."""


def setup_cell(notebook: str) -> str:
    """Return the text of the first cell of a notebook.

    Args:
        notebook: Its number, such as ``"01"``.

    Returns:
        Python source, the same in every notebook but for the number.
    """
    return SETUP_CELL.replace("{notebook}", notebook).rstrip("\n")


def normalise(notebook: Any, stem: str) -> Any:
    """Bring a notebook into the one form that is committed: the same work gives the same file.

    Cell ids are unique and stay where they are; counts run 1..n over the code cells; nothing of the machine, the
    editor or Colab is left; neighbouring pieces of one output stream are joined.

    Args:
        notebook: An nbformat 4 notebook; it is changed in place.
        stem: File name without its ending, the prefix of new ids.

    Returns:
        The same notebook.
    """
    notebook.metadata.clear()
    notebook.metadata.update(kernelspec=dict(KERNEL), language_info=dict(LANGUAGE))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: set[str] = set()
    count = 0
    for position, cell in enumerate(notebook.cells):
        if cell.get("id") in seen or not re.fullmatch(stem[:2] + r"-[a-z0-9-]+", cell.get("id", "")):
            cell["id"] = _free_id(f"{stem[:2]}-{position:03d}", seen)
        seen.add(cell["id"])
        tags = sorted(cell.metadata.get("tags", []))
        cell.metadata.clear()
        if tags:
            cell.metadata["tags"] = tags
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = [_plain(output, count) for output in _joined(cell.outputs)]
    return notebook


def _free_id(wanted: str, seen: set[str]) -> str:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    found = wanted
    while found in seen:
        found = wanted + next(letters)
    return found


def _joined(outputs: list[Any]) -> list[Any]:
    """Join neighbouring stream outputs of one name: a kernel cuts them at moments of its own."""
    joined: list[Any] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def _plain(output: Any, count: int) -> Any:
    if "metadata" in output:
        output.metadata.clear()
    if output.output_type == "execute_result":
        output.execution_count = count
    return output


def read(path: Path) -> Any:
    """Read a notebook file as editors, Colab and old versions of Jupyter leave it.

    A byte order mark is passed over, missing and doubled cell ids are mended, and the widget block is dropped: Colab
    saves it without its state, on which the HTML copy would fail.

    Args:
        path: The ``.ipynb`` file.

    Returns:
        The notebook, as nbformat 4.

    Raises:
        ValueError: If the file is no notebook, with the reason in one line.
    """
    import nbformat

    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 (byte {error.start} is {path.read_bytes()[error.start]:#04x}): save it as UTF-8"
        raise ValueError(f"{path.name} is no notebook: {reason}") from error
    try:
        return nbformat.reads(json.dumps(_mended(json.loads(text))), as_version=4)
    except Exception as error:  # nbformat raises a family of its own, json another
        start = text.lstrip()[:40].replace("\n", " ")
        raise ValueError(f"{path.name} is no notebook: it begins with {start!r} ({type(error).__name__})") from error


def _mended(content: Any) -> Any:
    """Give every cell an id of its own where the format has ids, and drop the state of widgets."""
    content["metadata"].pop("widgets", None)
    if (content["nbformat"], content["nbformat_minor"]) < (4, 5):
        return content
    seen: set[str] = set()
    for position, cell in enumerate(content["cells"]):
        if not cell.get("id") or cell["id"] in seen:
            cell["id"] = _free_id(f"cell-{position:03d}", seen)
        seen.add(cell["id"])
    return content


def write(notebook: Any, path: Path) -> None:
    """Write a notebook under a temporary name, then rename it.

    Args:
        notebook: An nbformat 4 notebook.
        path: The ``.ipynb`` file; replaced as a whole.
    """
    import nbformat

    replace_file(path, nbformat.writes(notebook) + "\n")


def execute(
    notebook: Any,
    folder: Path,
    *,
    environment: dict[str, str] | None = None,
    on_cell: Callable[[int], None] | None = None,
) -> Any:
    """Run all cells in a fresh kernel of this very interpreter; errors stay in the outputs and the run goes on.

    Args:
        notebook: An nbformat 4 notebook; its outputs are replaced.
        folder: Working folder of the kernel.
        environment: Variables to add to the kernel's environment.
        on_cell: Called with the index of each cell when it has run.

    Returns:
        The same notebook.

    Raises:
        StoppedError: If the kernel dies, or a cell runs for more than five minutes; later cells have not run.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    notebook.metadata["kernelspec"] = dict(KERNEL)
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    started = [0]
    client.on_cell_start = lambda cell_index, **_: started.append(cell_index)
    if on_cell is not None:
        client.on_cell_executed = lambda cell_index, **_: on_cell(cell_index)
    try:
        # ipykernel greets on stderr; what matters arrives as outputs.
        client.execute(env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL)
    except DeadKernelError as error:
        reason = "the kernel died (out of memory, or the code ended the process)"
        raise StoppedError(f"cell {started[-1]}: {reason}; later cells did not run") from error
    except CellTimeoutError as error:
        reason = (
            f"still running after {CELL_SECONDS} s (an endless loop, or a busy machine: run this notebook again alone)"
        )
        raise StoppedError(f"cell {started[-1]}: {reason}; later cells did not run") from error
    return notebook


def to_html(notebook: Any, title: str) -> str:
    """Return a notebook as one HTML page that needs no other file.

    Args:
        notebook: An nbformat 4 notebook.
        title: Title of the page.

    Returns:
        The page.
    """
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="lab", embed_images=True)
    return exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})[0]


def errors(notebook: Any) -> list[str]:
    """Return one line for each cell that ended in an error.

    Args:
        notebook: An executed notebook.

    Returns:
        Lines such as ``"cell 7: NameError: name 'x' is not defined"``.
    """
    return [
        f"cell {position}: {output.ename}: {output.evalue.splitlines()[0] if output.evalue else ''}"
        for position, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
