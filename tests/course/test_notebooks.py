"""Notebooks have one first cell, one normal form, and run in a kernel of this interpreter."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import textwrap
import threading
import zipfile
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from cs_transformers.course import notebooks

nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).resolve().parent.parent.parent


def sample() -> object:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title"),
            nbformat.v4.new_code_cell("print('a')", execution_count=7),
            nbformat.v4.new_code_cell("1 + 1"),
        ]
    )
    stream = partial(nbformat.v4.new_output, "stream", name="stdout")
    notebook.cells[1].outputs = [stream(text="a"), stream(text="\n")]
    notebook.cells[2].outputs = [
        nbformat.v4.new_output("execute_result", data={"text/plain": "2"}, execution_count=9, metadata={"colab": 1})
    ]
    notebook.cells[2].metadata.update(tags=["train"], colab={"x": 1}, collapsed=True)
    notebook.metadata["widgets"] = {"no": "state"}
    return notebook


def test_normalising_leaves_only_the_work() -> None:
    result = notebooks.normalise(sample(), "01_attention")
    assert [cell.id for cell in result.cells] == ["01-000", "01-001", "01-002"]
    assert [cell.execution_count for cell in result.cells if cell.cell_type == "code"] == [1, 2]
    assert [output.text for output in result.cells[1].outputs] == ["a\n"]
    assert result.cells[2].outputs[0].execution_count == 2
    assert result.cells[2].outputs[0].metadata == {}
    assert result.cells[2].metadata == {"tags": ["train"]}
    assert set(result.metadata) == {"kernelspec", "language_info"}


def test_normalising_twice_changes_nothing() -> None:
    once = nbformat.writes(notebooks.normalise(sample(), "01_attention"))
    assert nbformat.writes(notebooks.normalise(nbformat.reads(once, as_version=4), "01_attention")) == once


def test_double_ids_are_told_apart_and_good_ones_kept() -> None:
    notebook = sample()
    for cell in notebook.cells:
        cell["id"] = "01-twice"
    ids = [cell.id for cell in notebooks.normalise(notebook, "01_attention").cells]
    assert ids == ["01-twice", "01-001", "01-002"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "begins with ''"),
        (b"<!DOCTYPE html><p>", "begins with '<!DOCTYPE html><p>'"),
        (b"<<<<<<< HEAD\n{}", "begins with '<<<<<<< HEAD {}'"),
        (b"{}", "is no notebook"),
        (b"[]", "is no notebook"),
        ("{“cells”: []}".encode(), "begins with '{“cells”: \\[\\]}'"),
        ("{}".encode("utf-16"), r"is no notebook: it is not UTF-8 \(byte 0 is 0xff\): save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_notebook_is_told_in_one_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told) as caught:
        notebooks.read(path)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_accepted_and_writing_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "01_attention.ipynb"
    notebooks.write(notebooks.normalise(sample(), "01_attention"), path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(notebooks.read(path).cells) == 3
    assert [left.name for left in tmp_path.iterdir()] == ["01_attention.ipynb"]


def test_what_colab_and_old_versions_leave_is_mended(tmp_path: Path) -> None:
    content = nbformat.writes(sample())
    raw = json.loads(content)
    raw["cells"][1]["id"] = raw["cells"][2]["id"] = "twice"
    del raw["cells"][0]["id"]
    raw["metadata"] = {"kernelspec": {"name": "conda-env-x", "display_name": "x"}, "widgets": {"application/json": {}}}
    path = tmp_path / "01_attention.ipynb"
    path.write_text(json.dumps(raw), encoding="utf-8")
    read = notebooks.read(path)
    assert [cell.id for cell in read.cells] == ["cell-000", "twice", "cell-002"]
    assert "widgets" not in read.metadata
    assert [cell.source for cell in read.cells] == [cell.source for cell in sample().cells]
    nbformat.validate(read)
    assert "<title>x</title>" in notebooks.to_html(read, "x"), "the widget block would have stopped the page"
    del raw["cells"][1]["id"], raw["cells"][2]["id"]
    path.write_text(json.dumps(raw | {"nbformat_minor": 4}), encoding="utf-8")
    assert "id" not in notebooks.read(path).cells[0], "the older format has none"


def test_a_notebook_runs_whatever_its_kernel_was_called(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import sys; print(sys.executable)")])
    notebook.metadata["kernelspec"] = {"name": "conda-env-x", "display_name": "x", "language": "python"}
    notebooks.execute(notebook, tmp_path)
    assert notebook.cells[0].outputs[0].text.strip() == sys.executable


def test_execution_goes_on_after_an_error_and_reports_each_cell(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s) for s in ("import os; print(os.environ['CST_X'])", "1/0", "print('after')")]
    )
    done: list[int] = []
    notebooks.execute(notebook, tmp_path, environment={"CST_X": "seen"}, on_cell=done.append)
    assert notebook.cells[0].outputs[0].text == "seen\n"
    assert notebook.cells[2].outputs[0].text == "after\n"
    assert done == [0, 1, 2]
    assert notebooks.errors(notebook) == ["cell 1: ZeroDivisionError: division by zero"]
    page = notebooks.to_html(notebook, "sample")
    assert "ZeroDivisionError" in page
    assert "<title>sample</title>" in page


def test_the_set_up_cell_is_short_and_holds_no_path() -> None:
    lines = notebooks.setup_cell("04").splitlines()
    assert len(lines) < 25
    assert max(map(len, lines)) <= 120
    assert lines[-1].endswith('start("04")')
    assert not [line for line in lines if '"/' in line or "pip" in line]


# ---- the set-up cell as Colab users meet it: a fake google.colab, an empty working folder, a local server ----

STUB = """
import sys, types, pathlib
calls = []
colab = types.ModuleType("google.colab"); google = types.ModuleType("google"); google.__path__ = []
drive = types.ModuleType("google.colab.drive")
def mount(point):
    point = pathlib.Path(point)
    if not calls and point.exists() and any(point.iterdir()):
        raise ValueError("Mountpoint must not already contain files")
    calls.append(point)
    (point / "MyDrive").mkdir(parents=True, exist_ok=True)
drive.mount = mount; colab.drive = drive; google.colab = colab
sys.modules.update({"google": google, "google.colab": colab, "google.colab.drive": drive})
"""


def in_folder(folder: Path, *parts: str) -> subprocess.CompletedProcess:
    """Run pieces of code with nothing of the course importable but what the set-up cell finds."""
    code = "\n".join(parts)
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def tiny_course(folder: Path) -> Path:
    package = folder / "cs_transformers" / "course"
    package.mkdir(parents=True)
    for init in (package / "__init__.py", package.parent / "__init__.py"):
        init.write_text("", encoding="utf-8")
    (package / "classroom.py").write_text("def start(n): print('ready', n, __file__)\n", encoding="utf-8")
    return folder


@pytest.fixture
def release(tmp_path: Path) -> str:
    """Serve a small release zip on loopback and return its address."""
    course = tiny_course(tmp_path / "source")
    site = tmp_path / "site"
    site.mkdir()
    for name, top in (("course", ""), ("nested", "course-main/")):  # as GitHub packs a branch
        with zipfile.ZipFile(site / f"{name}.zip", "w") as archive:
            for path in course.rglob("*.py"):
                archive.write(path, top + path.relative_to(course).as_posix())
    with zipfile.ZipFile(site / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "no course in here")
    whole = (site / "course.zip").read_bytes()
    (site / "damaged.zip").write_bytes(whole[: len(whole) // 2])
    (site / "broken.zip").write_bytes(whole.replace(b"print('ready'", b"print('reads'"))  # stored, so its sum is wrong

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing on the test's stderr."""

    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/course.zip"
    server.shutdown()
    server.server_close()
    thread.join()


def cell(url: str = "", folder: str = "transformers", drive: bool = False) -> str:
    text = notebooks.setup_cell("01").replace('"", "transformers"', f'"{url}", "{folder}"')
    return text.replace("USE_DRIVE = False", f"USE_DRIVE = {drive}")


def test_set_up_finds_the_course_above_a_notebook(tmp_path: Path) -> None:
    tiny_course(tmp_path)
    (tmp_path / "notebooks").mkdir()
    run = in_folder(tmp_path / "notebooks", cell(), cell(), "print(len(sys.path) - len(set(sys.path)))")
    assert run.stdout.splitlines()[0].startswith("ready 01 ")
    assert run.stdout.splitlines()[-1] == "0", "running it again must not grow sys.path"


def test_set_up_without_a_course_says_where_it_looked_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "한글 폴더").mkdir()
    run = in_folder(tmp_path, cell(folder="wrong name"))
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert "FileNotFoundError: expected cs_transformers/__init__.py in" in last
    assert "wrong name" in last
    assert "set FOLDER" in last
    assert [path.name for path in tmp_path.iterdir()] == ["한글 폴더"], "nothing may be created"


def test_set_up_with_a_folder_of_none_says_what_to_set(tmp_path: Path) -> None:
    run = in_folder(tmp_path, cell().replace('"transformers"', "None"))
    assert run.returncode == 1
    assert "set FOLDER" in run.stderr.strip().splitlines()[-1]


def test_set_up_fetches_the_release_once_and_never_over_answers(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    here.mkdir()
    run = in_folder(here, STUB, cell(release))
    assert run.stdout.startswith("ready 01 "), run.stderr
    mine = here / "transformers" / "cs_transformers" / "__init__.py"
    mine.write_text("answer = 42\n", encoding="utf-8")
    again = in_folder(here, STUB, cell(release))
    assert again.stdout.startswith("ready 01 ")
    assert mine.read_text(encoding="utf-8") == "answer = 42\n"
    assert sorted(path.name for path in here.iterdir()) == ["transformers"]


def test_set_up_on_drive_keeps_the_course_there(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    here.mkdir()
    twice = [cell(release, "코스 1", drive=True)] * 2
    run = in_folder(here, STUB, *twice, "print(len(sys.path) - len(set(sys.path)), len(calls))")
    assert run.stdout.count("ready 01 ") == 2, run.stderr
    assert run.stdout.splitlines()[-1] == "0 2", "running it again must not grow sys.path"
    assert (here / "drive" / "MyDrive" / "코스 1" / "cs_transformers" / "__init__.py").is_file()


def test_an_empty_drive_or_a_wrong_folder_is_told_in_the_first_cell(tmp_path: Path) -> None:
    run = in_folder(tmp_path, STUB, cell(folder="wrong", drive=True))
    last = run.stderr.strip().splitlines()[-1]
    assert f"or in {tmp_path / 'drive' / 'MyDrive' / 'wrong'}; found []: try again, ask your instructor, or" in last
    assert last.endswith("upload the zip, unpack it and set FOLDER")
    assert list((tmp_path / "drive" / "MyDrive").iterdir()) == [], "nothing may be created"


TO_DO = ": try again, ask your instructor, or upload the zip, unpack it and set FOLDER"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing.zip", "could not get the course from {url} (HTTP Error 404: File not found)"),
        ("damaged.zip", "could not get the course from {url} (File is not a zip file)"),
        (
            "broken.zip",
            "could not get the course from {url} (Bad CRC-32 for file 'cs_transformers/course/classroom.py')",
        ),
        ("other.zip", "found no course in {url}"),
    ],
)
def test_what_cannot_be_fetched_is_told_in_one_sentence_and_leaves_nothing(
    tmp_path: Path, release: str, name: str, reason: str
) -> None:
    here, url = tmp_path / "content", release.replace("course.zip", name)
    here.mkdir()
    run = in_folder(here, STUB, cell(url))
    assert run.returncode == 1
    assert run.stderr.strip().splitlines()[-1] == f"FileNotFoundError: {reason.format(url=url)}{TO_DO}"
    assert run.stderr.count("Traceback") == 1, "no chain of errors"
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/course.zip", "www.example.org/course.zip"])
def test_a_server_that_is_down_and_an_address_that_is_none_are_told_by_their_address(tmp_path: Path, url: str) -> None:
    with socket.socket() as free:  # bound but not listening: nobody answers there
        free.bind(("127.0.0.1", 0))
        url = url.format(port=free.getsockname()[1])
        run = in_folder(tmp_path, STUB, cell(url))
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(f"FileNotFoundError: could not get the course from {url} (")
    assert last.endswith(TO_DO)
    assert len(run.stderr.splitlines()) < 6
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_whose_set_up_failed_shows_a_few_lines_and_stops_there(tmp_path: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    cells = [nbformat.v4.new_code_cell(source) for source in (cell("http://127.0.0.1:9/course.zip"), "print('on')")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError, match="could not get the course from http://127"):
        NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute(stderr=subprocess.DEVNULL)
    (output,) = notebook.cells[0].outputs
    assert len("\n".join(output.traceback).splitlines()) < 15, "an error of the download itself takes a hundred"
    assert notebook.cells[1].outputs == []


@pytest.mark.parametrize("where", ["beside", "on drive", "above"])
def test_a_clone_that_bears_the_name_of_the_package_is_looked_into(tmp_path: Path, release: str, where: str) -> None:
    here = tmp_path / "content"
    clone = {"beside": here, "on drive": here / "drive" / "MyDrive", "above": tmp_path}[where] / "cs_transformers"
    tiny_course(clone)
    (clone / "README.md").write_text("a clone", encoding="utf-8")
    start = clone / "notebooks" if where == "above" else here
    start.mkdir(exist_ok=True)
    run = in_folder(start, STUB, 'sys.path.insert(0, "")', cell(release))
    assert run.stdout.startswith(f"ready 01 {clone / 'cs_transformers'}"), run.stderr


def test_a_folder_that_merely_bears_the_name_of_the_package_is_passed_over(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    (here / "cs_transformers" / "figures").mkdir(parents=True)
    run = in_folder(here, STUB, 'sys.path.insert(0, "")', cell(release))
    assert run.stdout.startswith(f"ready 01 {here / 'transformers' / 'cs_transformers'}"), run.stderr
    assert [path.name for path in (here / "cs_transformers").iterdir()] == ["figures"]


def test_a_course_in_a_folder_of_its_own_is_found_and_nothing_else_is_left(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    (here / "transformers.part" / "old").mkdir(parents=True)  # an earlier attempt broke off here
    run = in_folder(here, STUB, cell(release.replace("course.zip", "nested.zip")))
    assert run.stdout.startswith("ready 01 "), run.stderr
    assert [path.name for path in here.iterdir()] == ["transformers"]
    assert [path.name for path in (here / "transformers").iterdir()] == ["cs_transformers"]


def test_a_drive_that_was_mounted_by_hand_is_used(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    (here / "drive" / "MyDrive").mkdir(parents=True)
    run = in_folder(here, STUB, cell(release))
    assert run.stdout.startswith("ready 01 "), run.stderr
    assert [path.name for path in (here / "drive" / "MyDrive").iterdir()] == ["transformers"]


def test_work_begun_before_the_drive_was_mounted_is_not_passed_over(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    tiny_course(here / "transformers")
    run = in_folder(here, STUB, cell(release, drive=True))
    assert run.stdout.splitlines()[0].endswith("content/transformers/cs_transformers/course/classroom.py")
    assert list((here / "drive" / "MyDrive").iterdir()) == []


def test_an_existing_folder_of_another_kind_is_never_touched(tmp_path: Path, release: str) -> None:
    here = tmp_path / "content"
    (here / "transformers").mkdir(parents=True)
    (here / "transformers" / "diary.txt").write_text("mine", encoding="utf-8")
    run = in_folder(here, STUB, cell(release))
    assert run.returncode == 1
    assert (here / "transformers" / "diary.txt").read_text(encoding="utf-8") == "mine"


def test_the_zip_of_the_test_is_a_zip(release: str) -> None:
    from urllib.request import urlopen

    with urlopen(release, timeout=10) as reply:
        names = zipfile.ZipFile(io.BytesIO(reply.read())).namelist()
    assert "cs_transformers/__init__.py" in names, textwrap.shorten(str(names), 200)
