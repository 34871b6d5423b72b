"""A notebook on stubs tells what is missing, goes on, and keeps the answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


def test_paths_outside_the_course_are_cut_to_their_names() -> None:
    inside = classroom.course_home() / "cs_transformers" / "attention.py"
    assert classroom._short(str(inside)) == "cs_transformers/attention.py"
    assert classroom._short("/elsewhere/mine.py") == "mine.py"


def test_a_name_bound_again_no_longer_waits() -> None:
    shell = SimpleNamespace(
        set_custom_exc=lambda *_: None, events=SimpleNamespace(register=lambda *_: None), showtraceback=None
    )
    stops = classroom.StubStops(shell)
    stops.waiting = {"x": "1.1"}
    stops._before(SimpleNamespace(raw_cell="x = 1"))
    stops._after(SimpleNamespace(error_in_exec=None, success=True))
    assert stops.waiting == {}
