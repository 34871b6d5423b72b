"""A run of the course gives a page, the verdicts and the problems of each notebook, whatever its cells do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.verdict import Verdict
from cs_transformers.course import run as course_run

nbformat = pytest.importorskip("nbformat")


def write(folder: Path, name: str, *sources: str) -> Path:
    path = folder / f"{name}.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


def leave(*verdicts: Verdict) -> str:
    """Source of a cell that leaves verdicts as check cells do."""
    lines = "".join(json.dumps(asdict(verdict)) + "\n" for verdict in verdicts)
    return f"import os; open(os.environ['CST_VERDICTS'], 'a', encoding='utf-8').write({lines!r})"


PASSED = Verdict("1.1", "attention_scores", "passed", points=3, out_of=3)
WRONG = Verdict("1.1", "attention_scores", "wrong", points=0, out_of=3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[course_run.NotebookRun], Path]:
    folder = tmp_path_factory.mktemp("notebooks")
    write(folder, "01_attention", leave(WRONG, PASSED), "print('hello')")
    write(folder, "02_positional_encoding", "1/0", "print('after')")
    write(folder, "03_transformer_blocks", "print('alive')", "import os; os._exit(1)", "raise AssertionError")
    (folder / "04_image_captioning.ipynb").write_bytes(b"<!DOCTYPE html>")
    out = folder / "run"
    return [course_run.run_notebook(path, out) for path in course_run.find_notebooks(folder)], out


def test_the_last_verdict_of_a_check_cell_counts(runs: tuple) -> None:
    assert runs[0][0].verdicts == {"1.1": PASSED}
    assert runs[0][0].problems == []


def test_an_error_is_a_problem_and_a_dead_kernel_is_named_with_its_cell(runs: tuple) -> None:
    assert runs[0][1].problems == ["cell 0: ZeroDivisionError: division by zero"]
    assert [problem.split(" (")[0] for problem in runs[0][2].problems] == ["cell 1: the kernel died"]
    assert not course_run.all_solved(runs[0][2:3])


def test_a_cell_beyond_its_limit_ends_the_run_of_its_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_run.notebooks, "CELL_SECONDS", 5)
    path = write(tmp_path, "01_attention", "print('quick')", "import time; time.sleep(600)", "print('never')")
    run = course_run.run_notebook(path, tmp_path / "run")
    expected = "cell 1: still running after 5 s (an endless loop, or a busy machine: run this notebook again alone); "
    assert run.problems[0] == expected + "later cells did not run"
    assert "quick" in run.page.read_text(encoding="utf-8")


def test_a_file_that_is_no_notebook_is_a_problem_and_the_others_run(runs: tuple) -> None:
    results, out = runs
    path = out.parent / "04_image_captioning.ipynb"
    assert results[3].problems == [f"{path.name} is no notebook: it begins with '<!DOCTYPE html>' (JSONDecodeError)"]
    assert (results[3].page, course_run.count_cells(path)) == (None, 0)
    assert course_run.count_cells(out.parent / "01_attention.ipynb") == 2
    assert not course_run.all_solved(results[3:])
    alone = course_run.write_index(results[3:], out.parent / "alone").read_text(encoding="utf-8")
    assert "is no notebook" in alone
    assert "<a href" not in alone


def test_every_notebook_has_a_page_and_the_index_links_them(runs: tuple) -> None:
    results, out = runs
    index = course_run.write_index(results, out).read_text(encoding="utf-8")
    assert sorted(path.name for path in out.iterdir()) == [
        "01_attention.html",
        "02_positional_encoding.html",
        "03_transformer_blocks.html",
        "index.html",
    ]
    assert "hello" in (out / "01_attention.html").read_text(encoding="utf-8")
    for result in results[:3]:
        assert f'href="{result.name}.html"' in index
    assert "ZeroDivisionError" in index


def test_the_notebooks_themselves_stay_as_they_were(runs: tuple) -> None:
    _, out = runs
    stored = nbformat.read(out.parent / "01_attention.ipynb", as_version=4)
    assert [cell.outputs for cell in stored.cells] == [[], []]


def test_a_missing_verdict_or_a_problem_is_not_solved(runs: tuple) -> None:
    assert not course_run.all_solved(runs[0])
    only = course_run.NotebookRun("01_attention", verdicts={"1.1": PASSED})
    assert not course_run.all_solved([only]), "the other exercises of 01 left no verdict"


def test_every_exercise_of_a_notebook_has_a_verdict_even_when_its_cell_did_not_run(tmp_path: Path) -> None:
    run = course_run.NotebookRun("07_translation", verdicts={"7.2": Verdict("7.2", "x", "passed", points=6, out_of=6)})
    found = course_run.all_verdicts(run)
    assert [one.id for one in found] == [one.id for one in EXERCISES.values() if one.notebook == "07"]
    assert sum(one.out_of + one.review for one in found) == 25
    states = {one.id: one.state for one in found}
    assert (states["7.1"], states["7.2"]) == ("stopped", "passed")
    assert states["7.6"] in ("awaiting review", "not attempted"), "a text has no check cell"
    page = course_run.write_index([run], tmp_path).read_text(encoding="utf-8")
    assert all(f"<td>{one.id}</td>" in page for one in found)


def test_lines_that_are_no_verdict_are_passed_over(tmp_path: Path) -> None:
    record = tmp_path / "verdicts.jsonl"
    record.write_text(
        "\n".join(
            ["{", "[]", '{"id": 1}', '{"id": "99.1", "symbol": "x", "state": "passed"}', json.dumps(asdict(PASSED))]
        ),
        encoding="utf-8",
    )
    assert course_run.read_verdicts(record) == {"1.1": PASSED}
    assert course_run.read_verdicts(tmp_path / "none") == {}


def test_an_unknown_number_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found none: pass --folder"):
        course_run.find_notebooks(tmp_path)
    write(tmp_path, "01_attention", "1")
    assert [path.stem for path in course_run.find_notebooks(tmp_path, ["1"])] == ["01_attention"]
    with pytest.raises(ValueError, match=r"expected numbers of notebooks in .*\(01\), got 07"):
        course_run.find_notebooks(tmp_path, ["7"])


def test_points_are_written_as_people_read_them() -> None:
    assert course_run.points_text(PASSED) == "3 of 3"
    assert course_run.points_text(Verdict("6.1", "x", "passed", points=2, out_of=2, review=3)) == "2 of 2, text 3"
    assert course_run.points_text(Verdict("6.2", "x", "awaiting review", review=4)) == "text 4"


def test_a_check_cell_leaves_its_verdict_where_the_run_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from cs_transformers.checks import check

    monkeypatch.setenv("CST_VERDICTS", str(tmp_path / "verdicts.jsonl"))
    check("1.4")
    assert capsys.readouterr().out == "1.4 causal_mask: passed (2 of 2 points)\n"
    assert course_run.read_verdicts(tmp_path / "verdicts.jsonl")["1.4"].points == 2
