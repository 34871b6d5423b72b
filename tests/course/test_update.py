"""Moving into a corrected edition, or to another machine: no answer is ever lost, and breaking off harms nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.checks import edition
from cs_transformers.checks.markers import lift, read_source
from cs_transformers.checks.tree import PACKAGE
from cs_transformers.course import archives, classroom, submission
from cs_transformers.course import update as course_update
from cs_transformers.course.archives import open_zip, read_folder, write_zip
from cs_transformers.course.cells import inline_answers
from cs_transformers.course.editions import Options, write_edition

ROOT = PACKAGE.parent
STUB = 'raise NotImplementedError("exercise {} is not written yet")'


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corrected instructor edition: a docstring, a notebook's text, one more file, one less."""
    source = tmp_path_factory.mktemp("source") / "course"
    for name in ("cs_transformers", "docs", "datasets"):
        ignored = shutil.ignore_patterns("__pycache__", "cache")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    (source / "notebooks").mkdir()
    for name in ("01_attention.ipynb", "06_inline_questions.ipynb"):
        shutil.copyfile(ROOT / "notebooks" / name, source / "notebooks" / name)
    package = source / "cs_transformers"
    for name in ("attention.py", "cli/study.py"):
        path = package / name
        path.write_text(read_source(path) + "\n# corrected\n", encoding="utf-8")
    notebook = source / "notebooks" / "06_inline_questions.ipynb"
    notebook.write_text(read_source(notebook).replace("# 6 Inline questions", "# 6 Questions"), encoding="utf-8")
    (package / "new.py").write_text('"""New."""\n', encoding="utf-8")
    (package / "plots" / "questions.py").unlink()
    init = package / "plots" / "__init__.py"
    lines = [line for line in read_source(init).splitlines() if "questions" not in line]
    init.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return source


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_edition(tmp_path_factory.mktemp("before") / "work", Options(notebooks=("01", "06")))


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The corrected release as a zip in a folder of its own, as `cst release` writes it."""
    folder = write_edition(tmp_path_factory.mktemp("after") / "work", Options(notebooks=("01", "06")), source)
    files = {f"transformers/{name}": data for name, data in read_folder(folder).items()}
    return write_zip(folder.parent / "transformers.zip", files)


@pytest.fixture
def home(before: Path, tmp_path: Path) -> Path:
    shutil.copytree(before, tmp_path / "home")
    home = tmp_path / "home"
    solve(home, "attention.py", "1.4", "return own(7)")
    path = home / "cs_transformers" / "attention.py"
    mine = "def own(x):\n    return x\n"
    text = read_source(path)
    place = lift(text)["helpers"].body
    path.write_text(text.replace(place, place + mine, 1).replace("\n", "\r\n"), encoding="utf-8-sig")
    classroom.write_answer("6.2", "Because.", home)
    cell(home, "6.2", "Because.")
    (home / "notebooks" / "scratch.ipynb").write_text("{}", encoding="utf-8")
    return home


def solve(home: Path, file: str, id: str, body: str) -> None:
    path = home / "cs_transformers" / file
    text = read_source(path)
    assert STUB.format(id) in text
    path.write_text(text.replace(STUB.format(id), body), encoding="utf-8")


def cell(home: Path, question: str, text: str) -> None:
    path = home / "notebooks" / "06_inline_questions.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for one in notebook["cells"]:
        if "".join(one["source"]).startswith(f"%%answer {question}"):
            one["source"] = [f"%%answer {question}\n", text]
    notebook["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": ["my note"]})
    path.write_text(json.dumps(notebook), encoding="utf-8")


def assert_moved(home: Path, new: Path) -> None:
    text = read_source(home / "cs_transformers" / "attention.py")
    assert "# corrected" in text
    assert lift(text)["1.4"].body.strip() == "return own(7)"
    assert "def own(x):" in lift(text)["helpers"].body
    with zipfile.ZipFile(new) as archive:
        handed_out = edition.parse(archive.read("transformers/cs_transformers/release.json"))
    assert edition.load(home / "cs_transformers") == handed_out
    assert (home / "cs_transformers" / "new.py").is_file()
    assert not (home / "cs_transformers" / "plots" / "questions.py").exists()
    assert (home / "answers" / "6.2.md").read_text(encoding="utf-8") == "Because.\n"
    notebook = (home / "notebooks" / "06_inline_questions.ipynb").read_bytes()
    assert inline_answers(notebook)["6.2"] == "Because."
    assert "# 6 Questions" in notebook.decode()


def test_answers_move_and_everything_else_is_renewed(home: Path, after: Path) -> None:
    path = home / "notebooks" / "01_attention.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"].append({"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "source": ["1 + 1"]})
    path.write_text(json.dumps(notebook), encoding="utf-8")
    kept = path.read_bytes()
    moved = course_update.update(after, home)
    assert_moved(home, after)
    assert path.read_bytes() == kept, "the edition did not change this notebook: the student's own file goes on"
    assert (home / "notebooks" / "scratch.ipynb").read_text(encoding="utf-8") == "{}"
    assert sorted(moved.answers) == ["1.4", "helpers in cs_transformers/attention.py"]
    assert moved.notes == []
    assert moved.release == edition.load(home / "cs_transformers").id


def test_what_was_there_before_is_kept_in_a_zip(home: Path, after: Path) -> None:
    attention = (home / "cs_transformers" / "attention.py").read_bytes()
    questions = (home / "notebooks" / "06_inline_questions.ipynb").read_bytes()
    moved = course_update.update(after, home)
    with zipfile.ZipFile(moved.backup) as archive:
        assert archive.read("cs_transformers/attention.py") == attention
        assert archive.read("notebooks/06_inline_questions.ipynb") == questions
        assert b"my note" in questions
        assert "cs_transformers/plots/questions.py" in archive.namelist()
        assert "cs_transformers/blocks.py" not in archive.namelist(), "it did not change"


def test_a_second_update_changes_nothing(home: Path, after: Path) -> None:
    course_update.update(after, home)
    files = read_folder(home)
    moved = course_update.update(after, home)
    assert (moved.written, moved.backup) == ([], None)
    assert read_folder(home) == files


@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_an_update_that_breaks_off_is_finished_by_the_next(
    home: Path, after: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    write, count = course_update.replace_file, iter(range(1000))

    def dies(path: Path, data: bytes) -> Path:
        if next(count) == stop:
            raise KeyboardInterrupt
        return write(path, data)

    monkeypatch.setattr(course_update, "replace_file", dies)
    with pytest.raises(KeyboardInterrupt):
        course_update.update(after, home)
    monkeypatch.setattr(course_update, "replace_file", write)
    course_update.update(after, home)
    assert_moved(home, after)


def test_data_sets_environments_and_weights_are_not_read(
    home: Path, after: Path, before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = (home / "cs_transformers" / "attention.py").read_text(encoding="utf-8-sig")
    other = attention.replace("return own(7)", "return 8")
    large = ("datasets/coco/train.h5", "datasets/cache/x.npz", "notebooks/model.pt", "runs/weights.py", "weights.md")
    for name in (*large, ".venv/cs_transformers/attention.py", "backups/cs_transformers/attention.py",
                 "venv/lib/site-packages/cs_transformers/attention.py"):  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(other, encoding="utf-8")
        if name in large:
            (home / name).write_bytes(b"#" * (3 << 20))
    zipped = write_zip(tmp_path / "copy.zip", {f"mine/{name}": data for name, data in read_folder(home).items()
                                               if not name.startswith((".venv", "backups", "venv"))})  # fmt: skip
    read, sizes = Path.read_bytes, []

    def counted(path: Path) -> bytes:
        sizes.append(len(read(path)))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    monkeypatch.setattr(archives, "LARGEST", 3 << 20)
    for saved in (home, zipped):
        fresh = tmp_path / f"fresh {saved.stem}"
        shutil.copytree(before, fresh)
        moved = course_update.restore(saved, fresh)
        assert "return own(7)" in read_source(fresh / "cs_transformers" / "attention.py")
        assert not moved.notes
    course_update.update(after, home)
    assert_moved(home, after)
    assert sizes
    assert max(sizes) < 3 << 20


def test_broken_markers_stop_the_update_before_anything_changes(home: Path, after: Path) -> None:
    path = home / "cs_transformers" / "attention.py"
    path.write_text(read_source(path).replace("### END ANSWER 1.2", ""), encoding="utf-8")
    files = read_folder(home)
    with pytest.raises(ValueError, match=r"update: cs_transformers/attention\.py, line \d+: .*mend it first, nothing"):
        course_update.update(after, home)
    assert read_folder(home) == files


def test_changes_outside_the_regions_are_named(home: Path, after: Path) -> None:
    path = home / "cs_transformers" / "masks.py"
    path.write_text(read_source(path) + "\nprint('mine')\n", encoding="utf-8")
    moved = course_update.update(after, home)
    assert moved.notes == ["cs_transformers/masks.py: what you changed outside the answer regions is in backups/ only"]
    assert "mine" not in read_source(path)


def test_an_answer_that_the_new_edition_gives_is_named_and_kept(home: Path, tmp_path: Path) -> None:
    new = write_edition(tmp_path / "second week", Options(notebooks=("01", "06"), solved=("01",)))
    moved = course_update.update(new, home)
    assert "1.4: the new edition gives its solution; your answer is in backups/" in moved.notes
    assert edition.load(home / "cs_transformers").solved[0] == "1.1"
    with zipfile.ZipFile(moved.backup) as archive:
        assert b"return own(7)" in archive.read("cs_transformers/attention.py")


def test_an_answer_follows_its_exercise_into_another_file(home: Path, after: Path, tmp_path: Path) -> None:
    files = dict(open_zip(after, "x"))
    files = {name.removeprefix("transformers/"): data for name, data in files.items()}
    region = '### BEGIN ANSWER 1.4\n        raise NotImplementedError("exercise 1.4")\n        ### END ANSWER 1.4'
    name = "cs_transformers/attention.py"
    own = lift(files[name].decode())["1.4"]
    lines = files[name].decode().splitlines(keepends=True)
    del lines[own.first - 1 : own.last]
    files[name] = "".join([*lines[: own.first - 1], "    return None\n", *lines[own.first - 1 :]]).encode()
    moved_to = f"class Masks:\n    def causal(self):\n        {region}\n"
    files["cs_transformers/new.py"] = moved_to.encode()
    release = edition.parse(files["cs_transformers/release.json"])
    hashes = {path: hashlib.sha256(files[path]).hexdigest() for path in release.files}
    encoded = edition.encode(replace(release, files=hashes))
    files["cs_transformers/release.json"] = encoded.encode()
    new = write_zip(tmp_path / "new.zip", files)
    course_update.update(new, home)
    assert lift(read_source(home / "cs_transformers" / "new.py"))["1.4"].body == "        return own(7)\n"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[: len(data) // 2], "expected a whole zip, got a damaged one .*download it again"),
        (lambda _: b"<!DOCTYPE html>", "expected a whole zip"),
    ],
)
def test_a_damaged_zip_changes_nothing(home: Path, after: Path, tmp_path: Path, damage: object, told: str) -> None:
    broken = tmp_path / "broken.zip"
    broken.write_bytes(damage(after.read_bytes()))
    files = read_folder(home)
    with pytest.raises(ValueError, match=told):
        course_update.update(broken, home)
    assert read_folder(home) == files


def test_a_release_with_another_file_in_it_is_refused(home: Path, after: Path, tmp_path: Path) -> None:
    files = dict(open_zip(after, "x"))
    files["transformers/cs_transformers/masks.py"] += b"# tampered\n"
    with pytest.raises(ValueError, match=r"expected cs_transformers/masks\.py as it was released, got another file"):
        course_update.update(write_zip(tmp_path / "x.zip", files), home)
    del files["transformers/cs_transformers/masks.py"]
    with pytest.raises(ValueError, match=r"as it was released, got no file; download x\.zip again"):
        course_update.update(write_zip(tmp_path / "x.zip", files), home)


def test_what_is_no_student_edition_is_refused(home: Path, before: Path, tmp_path: Path) -> None:
    other = write_zip(tmp_path / "other.zip", {"readme.txt": b"hello"})
    with pytest.raises(ValueError, match=r"update: expected a student edition, got other\.zip, which is none"):
        course_update.update(other, home)
    with pytest.raises(ValueError, match=r"expected to stand in a student edition, got .*; go to your copy"):
        course_update.update(before, ROOT)
    with pytest.raises(
        ValueError, match=r"update: expected a zip or a folder, got 'nowhere\.zip', where there is none"
    ):
        course_update.update("nowhere.zip", home)
    with pytest.raises(ValueError, match="update: expected a zip or a folder, got ''"):
        course_update.update(None, home)


def test_outside_of_an_edition_one_is_told_where_one_stands(
    home: Path, after: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = rf"expected to stand in a student edition, got {tmp_path}; `cst` belongs to {ROOT} there, which is none"
    with pytest.raises(ValueError, match=told):
        course_update.update(after)
    with pytest.raises(ValueError, match=told):  # or the answers would lie among the instructor's
        course_update.restore(home)


def test_a_damaged_description_is_told(home: Path, after: Path) -> None:
    for text in ("{", "[]", "{}", '{"id": 3}'):
        (home / "cs_transformers" / "release.json").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"release: expected a readable release\.json.*your answers stay"):
            course_update.update(after, home)


def test_the_address_of_the_release_is_enough(home: Path, after: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing on the test's stderr."""

    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(after.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        path = home / "cs_transformers" / "release.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        record["url"] = f"http://127.0.0.1:{server.server_port}/transformers.zip"
        path.write_text(json.dumps(record), encoding="utf-8")
        course_update.update(None, home)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert_moved(home, after)


# ---------------------------------------------------------------- another machine


def test_a_submission_brings_the_answers_to_a_fresh_copy(
    home: Path, before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classroom, "course_home", lambda: home)
    handed = submission.submit(tmp_path / "handed.zip", check=False)
    fresh = tmp_path / "fresh"
    shutil.copytree(before, fresh)
    moved = course_update.restore(handed.path, fresh)
    assert sorted(moved.answers) == ["1.4", "6.2", "helpers in cs_transformers/attention.py"]
    text = read_source(fresh / "cs_transformers" / "attention.py")
    assert lift(text)["1.4"].body.strip() == "return own(7)"
    assert (fresh / "answers" / "6.2.md").read_text(encoding="utf-8") == "Because.\n"
    assert course_update.restore(handed.path, fresh).answers == []


def test_what_is_written_here_already_stays(home: Path, before: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    shutil.copytree(before, fresh)
    solve(fresh, "attention.py", "1.4", "return 8")
    classroom.write_answer("6.2", "Mine.", fresh)
    moved = course_update.restore(home, fresh)
    assert moved.answers == ["helpers in cs_transformers/attention.py"]
    assert "1.4 in cs_transformers/attention.py: you have an answer here already; it stays" in moved.notes
    assert "6.2: you have an answer here already; it stays" in moved.notes
    assert lift(read_source(fresh / "cs_transformers" / "attention.py"))["1.4"].body.strip() == "return 8"
    assert (fresh / "answers" / "6.2.md").read_text(encoding="utf-8") == "Mine.\n"


def test_a_zip_without_answers_says_so(before: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    shutil.copytree(before, fresh)
    empty = write_zip(tmp_path / "empty.zip", {"readme.txt": b"hello"})
    assert course_update.restore(empty, fresh).notes == ["empty.zip holds no answer"]


def test_the_command_tells_what_moved(home: Path, after: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classroom, "course_home", lambda: home)
    run = CliRunner(env={"COLUMNS": "200"})
    result = run.invoke(cli.app, ["update", str(after)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "answers moved: helpers in cs_transformers/attention.py, 1.4\n" in result.output
    assert f"as it was before: {home / 'backups'}" in result.output
    result = run.invoke(cli.app, ["update", "--answers", str(home)], catch_exceptions=False)
    assert "answers moved: none" in result.output
