"""Handing in: the zip holds what counts, whatever is broken is named and goes in, and nobody needs a network."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.checks import EXERCISES, Verdict, edition, front, tree
from cs_transformers.checks.markers import lift, read_source
from cs_transformers.course import classroom, submission
from cs_transformers.course.cells import inline_answers
from cs_transformers.course.editions import Options, write_edition

STUB = 'raise NotImplementedError("exercise {} is not written yet")'
POLICY = "Say which tools you used."


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_edition(tmp_path_factory.mktemp("released") / "work", Options(notebooks=("01", "06"), policy=POLICY))


@pytest.fixture
def home(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's copy, for whose package this process takes itself."""
    shutil.copytree(released, tmp_path / "my course")
    home = tmp_path / "my course"
    monkeypatch.setattr(classroom, "course_home", lambda: home)
    monkeypatch.setattr(front, "run_all", lambda progress=None: verdicts(progress))
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.chdir(tmp_path)
    return home


def verdicts(progress: object = None) -> list[Verdict]:
    rows = [
        Verdict("1.1", "attention_scores", "passed", points=3, out_of=3),
        Verdict("1.2", "attention_weights", "partly", points=1, out_of=4),
        Verdict("6.2", "ViT and CNN", "not attempted", review=4),
    ]
    for row in rows:
        if progress is not None:
            progress(row)
    return rows


def solve(home: Path, id: str, body: str) -> None:
    path = home / "cs_transformers" / EXERCISES[id].file
    text = read_source(path)
    assert STUB.format(id) in text
    path.write_text(text.replace(STUB.format(id), body), encoding="utf-8")


def write_cell(home: Path, question: str, text: str) -> Path:
    path = home / "notebooks" / "06_inline_questions.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if "".join(cell["source"]).startswith(f"%%answer {question}"):
            cell["source"] = [f"%%answer {question}\n", text]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_zip_holds_regions_texts_notebooks_and_a_manifest(home: Path) -> None:
    solve(home, "1.4", "return 7")
    classroom.write_answer("6.2", "Because.", home)
    (home / "diary.txt").write_text("private", encoding="utf-8")
    handed = submission.submit(declaration="none")
    files = contents(handed.path)
    assert handed.path == home.parent / "submission.zip"
    assert {name.split("/")[0] for name in files} == {"cs_transformers", "answers", "notebooks", "manifest.json"}
    assert {name for name in files if name.startswith("notebooks/")} == {
        "notebooks/01_attention.ipynb",
        "notebooks/06_inline_questions.ipynb",
    }
    assert files["answers/6.2.md"] == b"Because.\n"
    assert set(lift(files["cs_transformers/attention.py"].decode())) >= {"1.4", "1.5 join_heads", "helpers"}
    manifest = json.loads(files.pop("manifest.json"))
    assert manifest["hashes"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert manifest["verdicts"] == {"1.1": "passed", "1.2": "partly", "6.2": "not attempted"}
    assert manifest["release"] == edition.load(home / "cs_transformers").id != "instructor"
    assert manifest["course"] == "0.1.0"
    assert manifest["declaration"] == "none"
    assert set(manifest["versions"]) == {"python", "torch", "numpy", "platform"}


def test_a_reduced_file_parses_and_keeps_every_answer_in_its_lines(home: Path) -> None:
    body = "x = 1\n    if x:\n        return x  # größer\n    return 2"
    solve(home, "1.4", body)
    solve(home, "1.6", "return query")
    text = read_source(home / "cs_transformers" / "attention.py")
    small = submission.reduced(text, "attention.py")
    ast.parse(small)
    assert lift(small) == lift(text), "a verdict names lines of the student's own file"
    outside = [line for line in small.splitlines() if line.strip() and line not in lift_lines(small)]
    assert [line for line in outside if line.lstrip().startswith(("def ", "class "))], "functions are named"
    assert set(outside) <= set(text.splitlines()), "nothing looks like a change of the file"
    assert "Example:" not in small, "docstrings stay behind"
    assert len(small) < len(text) / 3


def lift_lines(text: str) -> set[str]:
    return {line for region in lift(text).values() for line in region.body.splitlines()}


def test_a_file_broken_elsewhere_still_gives_its_regions() -> None:
    text = "def f(:\n    ### BEGIN ANSWER 1.4\n    return 1\n    ### END ANSWER 1.4\n"
    assert lift(submission.reduced(text, "attention.py")) == lift(text)


@pytest.mark.parametrize("body", ["", "    # only a comment\n"])
def test_an_emptied_region_still_leaves_a_file_that_parses(body: str) -> None:
    text = f"def f():\n    x = 1\n    ### BEGIN ANSWER 1.4\n{body}    ### END ANSWER 1.4\n"
    small = submission.reduced(text, "attention.py")
    ast.parse(small)
    assert lift(small) == lift(text)


def test_what_grading_reads_from_the_zip_is_what_it_reads_from_the_folder(home: Path, tmp_path: Path) -> None:
    solve(home, "1.4", "return 7")
    solve(home, "1.2", "return (")  # no Python
    handed = submission.submit(declaration="none", check=False)
    with zipfile.ZipFile(handed.path) as archive:
        archive.extractall(tmp_path / "taken")
    files = sorted({EXERCISES[id].file for id in edition.load(home / "cs_transformers").open if EXERCISES[id].file})
    theirs = tree.read_answers(tmp_path / "taken" / "cs_transformers", files)
    mine = tree.read_answers(home / "cs_transformers", files)
    assert theirs == mine
    assert ("attention.py", "1.2") in mine.problems


def test_broken_markers_and_files_go_in_as_they_are_with_a_note(home: Path, capsys: pytest.CaptureFixture) -> None:
    attention, analysis = (home / "cs_transformers" / name for name in ("attention.py", "analysis.py"))
    attention.write_text(read_source(attention).replace("### END ANSWER 1.2", ""), encoding="utf-8")
    analysis.write_text("x = 1\n", encoding="utf-8")
    handed = submission.submit(declaration="none")
    files = contents(handed.path)
    assert files["cs_transformers/attention.py"] == attention.read_bytes()
    assert files["cs_transformers/analysis.py"] == analysis.read_bytes()
    printed = capsys.readouterr().out
    assert "attention.py, line " in printed
    assert "its answers may not be found" in printed
    assert "analysis.py: the marker lines of helpers, 6.1, 6.3, 6.4, 6.5 are missing" in printed
    analysis.write_bytes(b"caf\xe9")
    handed = submission.submit(declaration="none")
    assert any("UTF-8" in note and "analysis.py is handed in as it is" in note for note in handed.notes)
    analysis.unlink()
    handed = submission.submit(declaration="none")
    assert any("analysis.py is missing; take it again from the zip" in note for note in handed.notes)
    assert "cs_transformers/analysis.py" not in contents(handed.path)


@pytest.mark.parametrize(
    "content",
    [b"", b"<!DOCTYPE html>", b"<<<<<<< HEAD\n{}", "{}".encode("utf-16"), b"[]", b'{"cells": [3]}'],
    ids=["empty", "html", "conflict", "UTF-16", "list", "number"],
)
def test_a_notebook_that_is_none_goes_in_with_a_note(home: Path, content: bytes) -> None:
    (home / "notebooks" / "01_attention.ipynb").write_bytes(content)
    handed = submission.submit(declaration="none")
    assert contents(handed.path)["notebooks/01_attention.ipynb"] == content
    assert handed.notes == ["01_attention.ipynb cannot be read as a notebook; it is handed in as it is"]


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(home: Path) -> None:
    solve(home, "1.4", "return 7")
    before = contents(submission.submit(declaration="none").path)
    write_cell(home, "6.2", "Because.")
    for path in (home / "cs_transformers" / "attention.py", home / "notebooks" / "06_inline_questions.ipynb"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    after = contents(submission.submit(declaration="none").path)
    assert after["cs_transformers/attention.py"] == before["cs_transformers/attention.py"]
    assert after["answers/6.2.md"] == b"Because.\n"


def test_the_table_the_open_questions_and_the_percentage_of_released_points_are_shown(
    home: Path, capsys: pytest.CaptureFixture
) -> None:
    classroom.write_answer("6.1", "*Your answer, in one to five sentences.*", home)
    handed = submission.submit(declaration="none")
    printed = capsys.readouterr().out
    assert "1.2  attention_weights  partly" in printed
    assert "no answer yet to: 6.1, 6.2, 6.3" in printed
    assert "4 of 7 automatic points, 57 %; 4 more are for texts" in printed
    assert not handed.complete


def test_everything_right_and_answered_is_complete(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "run_all", lambda **_: verdicts()[:1])
    for question in ("6.1", "6.2", "6.3"):
        classroom.write_answer(question, "Because.", home)
    assert submission.submit(declaration="none").complete
    assert not submission.submit(declaration="none", check=False).complete, "nothing was checked"


# ---------------------------------------------------------------- inline answers


def test_an_answer_that_was_never_run_is_taken_from_the_notebook_and_kept(home: Path) -> None:
    write_cell(home, "6.2", "Never run.")
    handed = submission.submit(declaration="none")
    assert contents(handed.path)["answers/6.2.md"] == b"Never run.\n"
    assert (home / "answers" / "6.2.md").read_text(encoding="utf-8") == "Never run.\n"
    assert any("6.2: the answer in 06_inline_questions.ipynb was not run" in note for note in handed.notes)
    assert submission.submit(declaration="none").notes == []


def test_of_two_answers_the_newer_counts_and_a_note_says_so(home: Path) -> None:
    notebook = write_cell(home, "6.2", "In the cell.")
    kept = classroom.write_answer("6.2", "As it was run.", home)
    for newer, older, text, told in (
        (notebook, kept, b"In the cell.\n", "changed and not run since; the cell is handed in"),
        (kept, notebook, b"As it was run.\n", "is newer than 06_inline_questions.ipynb and differs"),
    ):
        os.utime(older, (1_000_000_000, 1_000_000_000))
        os.utime(newer, (1_000_000_100, 1_000_000_100))
        handed = submission.submit(declaration="none")
        assert contents(handed.path)["answers/6.2.md"] == text
        assert any(told in note for note in handed.notes)


def test_an_answer_with_any_letters_survives(home: Path) -> None:
    text = "Größe ist 2 · D; ∑ über alle Schlüssel 🙂"
    classroom.write_answer("6.3", text, home)
    assert contents(submission.submit(declaration="none").path)["answers/6.3.md"].decode() == text + "\n"


def test_cells_are_read_however_the_file_keeps_them() -> None:
    lines = [{"cell_type": "code", "source": ["%%answer 6.1\r\n", "a\r\n", "b"]}]
    text = [{"cell_type": "code", "source": "%%answer 6.1\na\nb"}]
    for cells in (lines, text):
        assert inline_answers(b"\xef\xbb\xbf" + json.dumps({"cells": cells}).encode()) == {"6.1": "a\nb"}
    for broken in (b"", b"[]", b"{}", b"\xff", b'{"cells": [3]}'):
        assert inline_answers(broken) == {}


# ---------------------------------------------------------------- the declaration


@pytest.mark.usefixtures("home")
def test_the_declaration_is_asked_for_where_somebody_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(submission, "_somebody_is_there", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "  a completion tool  ")
    handed = submission.submit()
    assert json.loads(contents(handed.path)["manifest.json"])["declaration"] == "a completion tool"
    assert POLICY in capsys.readouterr().out


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("problem", [EOFError, OSError, NotImplementedError, RuntimeError])
def test_a_declaration_that_cannot_be_asked_for_is_a_note_and_the_zip_is_written(
    monkeypatch: pytest.MonkeyPatch, problem: type
) -> None:
    def fail(_: str) -> str:
        raise problem

    monkeypatch.setattr(submission, "_somebody_is_there", lambda: True)
    monkeypatch.setattr("builtins.input", fail)
    handed = submission.submit()
    (note,) = [note for note in handed.notes if "the declaration on the use of AI is missing" in note]
    assert note.endswith('(AI_POLICY.md): cst submit --declaration "..." gives it, also "none"')
    monkeypatch.setattr(submission, "_in_a_notebook", lambda: True)
    assert any('submit(declaration="...") gives it' in note for note in submission.submit().notes)
    assert json.loads(contents(handed.path)["manifest.json"])["declaration"] == ""


def test_nobody_is_asked_where_nobody_is_there_or_the_course_has_no_policy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked"))
    assert any("declaration" in note for note in submission.submit().notes)
    path = home / "cs_transformers" / "release.json"
    path.write_text(path.read_text(encoding="utf-8").replace(POLICY, ""), encoding="utf-8")
    monkeypatch.setattr(submission, "_somebody_is_there", lambda: True)
    assert submission.submit().notes == []


# ---------------------------------------------------------------- places


@pytest.mark.usefixtures("home")
def test_the_zip_goes_where_one_stands_or_where_one_says_and_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert submission.submit("elsewhere", declaration="none").path == tmp_path / "elsewhere" / "submission.zip"
    named = submission.submit(Path("new") / "mine.zip", declaration="none")
    assert named.path == tmp_path / "new" / "mine.zip"
    named.path.write_bytes(b"an older one")
    assert zipfile.is_zipfile(submission.submit(named.path, declaration="none").path)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine.zip"]


def test_the_instructor_edition_is_refused_before_anything_is_checked_or_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "cs_transformers" / "release.json").unlink()
    monkeypatch.setattr(front, "run_all", lambda **_: pytest.fail("checked"))
    with pytest.raises(
        ValueError, match=r"submit: expected a student's copy, got the instructor edition \(my course\)"
    ):
        submission.submit()
    assert not list(home.parent.glob("*.zip"))


@pytest.mark.usefixtures("home")
def test_the_summary_names_the_copy_that_was_handed_in() -> None:
    assert "made from: the copy of the course in my course\nwritten: " in submission.submit(declaration="x").summary()


@pytest.mark.usefixtures("home")
def test_colab_offers_the_download(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[str] = []
    colab = types.ModuleType("google.colab")
    colab.files = types.SimpleNamespace(download=offered.append)
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    handed = submission.submit(declaration="none")
    assert offered == [str(handed.path)]


@pytest.mark.usefixtures("home")
def test_a_large_zip_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "LARGE", 1000)
    assert any("MB; clear the outputs" in note for note in submission.submit(declaration="none").notes)


def test_the_command_shows_the_table_and_its_exit_code_says_whether_all_is_right(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    result = run.invoke(cli.app, ["submit", "--declaration", "none", "-o", "x.zip"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "attention_weights" in result.output
    assert f"written: {home.parent / 'x.zip'}" in result.output
    for question in ("6.1", "6.2", "6.3"):
        classroom.write_answer(question, "Because.", home)
    monkeypatch.setattr(front, "run_all", lambda **_: verdicts()[:1])
    assert run.invoke(cli.app, ["submit", "--declaration", "none"], catch_exceptions=False).exit_code == 0
    assert run.invoke(cli.app, ["submit", "--no-check"], catch_exceptions=False).exit_code == 1


def test_the_released_edition_hands_in_from_any_folder_by_its_own_code(released: Path, tmp_path: Path) -> None:
    """Real checks, a real process, a folder elsewhere, no terminal; notebook 01 alone keeps it short."""
    copy = tmp_path / "copy"
    shutil.copytree(released, copy)
    solve(copy, "1.4", "return torch.ones(rows, columns).tril() == 1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = (
        "from cs_transformers.checks import front\nfrom cs_transformers.course.submission import submit\n"
        "every = front.run_all\nfront.run_all = lambda progress=None: every(['1'], progress)\n"
        "print(submit().complete)"
    )
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, cwd=elsewhere, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert "note: the declaration on the use of AI is missing" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "False"
    manifest = json.loads(contents(elsewhere / "submission.zip")["manifest.json"])
    assert set(manifest["verdicts"]) == {id for id in edition.load(copy / "cs_transformers").open if id[0] == "1"}
    assert manifest["verdicts"]["1.1"] == "not attempted"
