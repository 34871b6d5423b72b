"""A notebook on stubs tells what is missing, goes on, and keeps the answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from cs_transformers.course import classroom, notebooks

nbformat = pytest.importorskip("nbformat")


def code(*sources: str) -> list:
    return [nbformat.v4.new_code_cell(source) for source in sources]


def text_of(cell: object) -> str:
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text") or output.get("data", {}).get("text/markdown") or output.get("ename", ""))
    return "".join(parts)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list, Path]:
    home = tmp_path_factory.mktemp("course")
    (home / "stub.py").write_text(
        "def attend():\n    raise NotImplementedError('exercise 1.3 is not written yet')\n", encoding="utf-8"
    )
    notebook = nbformat.v4.new_notebook(
        cells=code(
            "from cs_transformers.course.classroom import start; start('01')",
            "start('01')",
            "import pathlib, stub, cs_transformers.course.classroom as c\nc.course_home = lambda: pathlib.Path.cwd()",
            "weights = stub.attend()",
            "total = weights.sum()",
            "print(total)",
            "weights = total = 3\nprint('solved', total)",
            "undefined_name",
            "raise NotImplementedError('mine, not a stub')",
            "%%answer 6.2\nBecause **images** are local: 이유.",
            "%%answer 6.3\n   ",
            "%%answer six\nno id",
        )
    )
    notebooks.execute(notebook, home)
    return notebook.cells, home


def test_start_tells_the_versions_and_may_run_twice(run: tuple[list, Path]) -> None:
    cells, _ = run
    assert text_of(cells[0]).startswith("notebook 01 is ready: python 3.")
    assert text_of(cells[0]) == text_of(cells[1])


def test_a_stub_shows_as_one_line_with_file_and_line(run: tuple[list, Path]) -> None:
    cells, _ = run
    line = "exercise 1.3 is not written yet (stub.py, line 2)\n"
    assert text_of(cells[3]) == line


def test_later_cells_name_the_exercise_they_wait_for(run: tuple[list, Path]) -> None:
    cells, _ = run
    assert text_of(cells[4]) == "this cell needs weights, which waits for exercise 1.3\n"
    assert text_of(cells[5]) == "this cell needs total, which waits for exercise 1.3\n"
    assert text_of(cells[6]) == "solved 3\n"


def test_other_errors_stay_errors(run: tuple[list, Path]) -> None:
    cells, _ = run
    assert text_of(cells[7]) == "NameError"
    assert text_of(cells[8]) == "NotImplementedError"


SUM = """\
seen, start_of = [], 5
for part in range(2):
    seen.append(part)
    total = total + stub.attend()
weights = total
"""


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What cells say when names of an earlier section stand there still, then with a mistake, then solved."""
    home = tmp_path_factory.mktemp("again")
    body = "raise NotImplementedError('exercise 1.6 is not written yet')"
    (home / "stub.py").write_text(f"def attend():\n    {body}\n\n\ndef lost():\n    return weights\n", encoding="utf-8")
    rewrite = "stub.attend = lambda: {}"
    cells = {
        "set-up": "from cs_transformers.course.classroom import start; start('01')",
        "names": "import stub\nweights, total, part = 1, 10, 'mine'",
        "stopped": SUM,
        "weights": "print(weights)",
        "total": "print(total)",
        "seen": "print(seen)",
        "start_of": "print(start_of)",
        "lost": "stub.lost()",
        "again": SUM,
        "still": "print(weights)",
        "mistake": rewrite.format("1 / 0"),
        "wrong": SUM,
        "old": "print(weights)",
        "solved": rewrite.format("7"),
        "right": SUM,
        "end": "print(weights, total, seen, part)",
    }
    notebook = nbformat.v4.new_notebook(cells=code(*cells.values()))
    notebooks.execute(notebook, home)
    return {name: text_of(cell) for name, cell in zip(cells, notebook.cells, strict=True)}


def test_a_stopped_cell_takes_away_what_an_earlier_section_left_under_its_names(twice: dict[str, str]) -> None:
    assert twice["stopped"].startswith("exercise 1.6 is not written yet")
    assert twice["weights"] == "this cell needs weights, which waits for exercise 1.6\n"
    assert twice["total"] == "this cell needs total, which waits for exercise 1.6\n"
    assert twice["seen"] == "this cell needs seen, which waits for exercise 1.6\n", "the loop had only begun to fill it"
    assert twice["start_of"] == "5\n", "this one was ready before the cell stopped"


def test_a_cell_that_reads_a_name_and_binds_it_runs_again_once_solved(twice: dict[str, str]) -> None:
    assert twice["again"] == twice["stopped"]
    assert twice["still"] == twice["weights"]
    assert twice["wrong"] == "ZeroDivisionError"
    assert twice["old"] == twice["weights"], "a cell with a mistake renews nothing"
    assert twice["end"] == "24 24 [0, 1] 1\n"


def test_a_name_that_is_missing_in_a_file_is_an_error_though_a_cell_waits_for_its_namesake(
    twice: dict[str, str],
) -> None:
    assert twice["lost"] == "NameError"


def test_a_cell_with_an_id_gets_its_names_back_also_when_it_was_edited() -> None:
    shell = SimpleNamespace(
        set_custom_exc=lambda *_: None,
        events=SimpleNamespace(register=lambda *_: None),
        transform_cell=str,
        user_ns={"total": 10},
    )
    stops = classroom.StubStops(shell)
    stops._before(SimpleNamespace(raw_cell="total = f(total)", cell_id="a"))
    stops._take_away("1.6", 1)
    assert shell.user_ns == {}
    stops._before(SimpleNamespace(raw_cell="total += 1", cell_id="b"))
    assert shell.user_ns == {}, "another cell must wait"
    stops._before(SimpleNamespace(raw_cell="# edited\ntotal = f(total)", cell_id="a"))
    assert shell.user_ns == {"total": 10}


@pytest.mark.parametrize(
    ("source", "line", "bound"),
    [
        ("a = [b for b in c]", 1, {"a"}),
        ("import a\nfrom b import c", 1, set()),
        ("def f(x):\n    y = x", 1, {"f"}),
        ("a = 1\nb = 2\nc = 3", 2, {"b", "c"}),
        ("a = {}\nfor b in c:\n    a[b] = d", 3, {"a", "b"}),
        ("a = {}\nfor b in a.values():\n    b.append(d)", 3, {"a", "b"}),
        ("a = f()\nprint(a)", 2, set()),
        ("_, a = f()", 1, {"a"}),
        ("a = ", 1, set()),
    ],
)
def test_what_a_stopped_cell_would_have_bound(source: str, line: int, bound: set[str]) -> None:
    assert classroom._bound(source, line) == bound


def test_an_answer_is_rendered_and_kept(run: tuple[list, Path]) -> None:
    cells, home = run
    assert text_of(cells[9]) == "Because **images** are local: 이유."
    assert (home / "answers" / "6.2.md").read_text(encoding="utf-8") == "Because **images** are local: 이유.\n"
    assert "6.3: no answer yet" in text_of(cells[10])
    assert text_of(cells[11]) == "ValueError"
    assert sorted(path.name for path in (home / "answers").iterdir()) == ["6.2.md", "6.3.md"]


def test_an_answer_cell_without_an_id_says_what_it_expected() -> None:
    with pytest.raises(ValueError, match=r"expected the id of a question, such as %%answer 6\.2, got 'six'"):
        classroom.answer("six", "text")


def test_too_old_a_torch_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(classroom.OLDEST, "torch", (99, 0))
    with pytest.raises(RuntimeError, match=r"needs torch 99\.0 or newer, found \d"):
        classroom.start("01")


def test_outside_a_notebook_start_only_reports(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    classroom.start("03")
    assert capsys.readouterr().out.startswith("notebook 03 is ready")


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("drive/MyDrive/transformers", "on your Google Drive: it stays when the session ends.\n"),
        ("transformers", "which Colab deletes when the session ends. To keep it, set USE_DRIVE = True\n"),
    ],
)
def test_in_colab_start_says_where_the_work_lies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path, home: str, told: str
) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    monkeypatch.setattr(classroom, "course_home", lambda: tmp_path / home)
    classroom.start("01")
    assert f"Your work is in {tmp_path / home}, {told}" in capsys.readouterr().out


def test_elsewhere_start_says_nothing_of_colab(capsys: pytest.CaptureFixture) -> None:
    classroom.start("01")
    assert "Your work" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["cs_transformers", "elsewhere"])
def test_the_command_line_typed_above_the_course_says_where_to_go(tmp_path: Path, name: str) -> None:
    (tmp_path / "cs_transformers" / name).mkdir(parents=True)  # no package: only a folder that bears its name
    package = classroom.course_home() / "cs_transformers"
    code = f"""
import importlib.util, runpy, sys
class Installed:  # as an editable installation finds the package's modules, whatever the package itself is
    def find_spec(name, path=None, target=None):
        if name == "cs_transformers.__main__":
            return importlib.util.spec_from_file_location(name, {str(package / "__main__.py")!r})
sys.path.insert(0, "")
sys.meta_path.append(Installed)
runpy.run_module("cs_transformers", run_name="__main__")
"""
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    there = f"cd {tmp_path / name}" if name == "cs_transformers" else "cd to the folder that holds notebooks"
    assert run.stderr.startswith(f"cst: {tmp_path} is not the course's folder; type this first: {there}")
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 1


def test_paths_outside_the_course_are_cut_to_their_names() -> None:
    inside = classroom.course_home() / "cs_transformers" / "attention.py"
    assert classroom._short(str(inside)) == "cs_transformers/attention.py"
    assert classroom._short("/elsewhere/mine.py") == "mine.py"


def test_a_name_bound_again_no_longer_waits() -> None:
    shell = SimpleNamespace(
        set_custom_exc=lambda *_: None,
        events=SimpleNamespace(register=lambda *_: None),
        transform_cell=str,
        user_ns={},
    )
    stops = classroom.StubStops(shell)
    stops.waiting = {"x": "1.1"}
    stops._before(SimpleNamespace(raw_cell="x = 1"))
    stops._after(SimpleNamespace(error_in_exec=None, success=True))
    assert stops.waiting == {}
