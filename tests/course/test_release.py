"""The release command: its proofs hold for this course, each of them can fail, and Colab users get along with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.checks import EXERCISES, NOTEBOOKS, edition
from cs_transformers.checks.client import shared_worker
from cs_transformers.checks.markers import lift, read_source
from cs_transformers.checks.refresh import reference_answers
from cs_transformers.checks.tree import PACKAGE
from cs_transformers.course import editions, notebooks, proofs
from cs_transformers.course import release as course_release
from cs_transformers.course.archives import read_folder, write_zip, zip_bytes
from cs_transformers.course.editions import Options, fill

nbformat = pytest.importorskip("nbformat")
ROOT = PACKAGE.parent
ONE = Options(notebooks=("02",))


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an instructor types, with every proof: red and green checks of all exercises among them."""
    folder = tmp_path_factory.mktemp("out")
    policy = folder / "policy.txt"
    policy.write_text("Say what you used.\n", encoding="utf-8-sig")
    arguments = ["release", str(folder / "release"), "--policy", str(policy), "--gradescope"]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    one = edition.load(folder / "release" / "cs_transformers")
    assert f"release {one.id}: {len(EXERCISES)} exercises, {one.points} points, proved" in result.output
    return folder


def test_the_whole_course_can_be_released_and_the_zip_is_the_folder(released: Path) -> None:
    files = read_folder(released / "release")
    with zipfile.ZipFile(released / "release.zip") as archive:
        assert archive.namelist() == sorted(f"transformers/{name}" for name in files)
        assert all(archive.read(f"transformers/{name}") == data for name, data in files.items())
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert edition.load(released / "release" / "cs_transformers").policy == "Say what you used."
    assert {path.name for path in released.iterdir()} == {
        "policy.txt",
        "release",
        "release.zip",
        "release-gradescope.zip",
    }


def test_the_autograder_holds_what_grading_needs(released: Path) -> None:
    with zipfile.ZipFile(released / "release-gradescope.zip") as archive:
        names = set(archive.namelist())
        assert archive.getinfo("run_autograder").external_attr >> 16 & 0o111
    assert {"setup.sh", "run_autograder", "release.json", "cs_transformers/grading/run.py"} <= names
    assert "cs_transformers/checks/mistakes/1_1/no_scale.py" in names
    assert "notebooks/01_attention.ipynb" in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_same_release_has_the_same_bytes(tmp_path: Path) -> None:
    zips = []
    for name in ("one", "another"):
        folder = editions.write_edition(tmp_path / name, ONE)
        zips.append(write_zip(tmp_path / f"{name}.zip", read_folder(folder)).read_bytes())
    assert zips[0] == zips[1]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without its proofs, which say nothing of where it is written."""
    for name in ("prove", "prove_by_running"):
        monkeypatch.setattr(proofs, name, lambda *_: None)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an edition with one notebook."""
    folder = tmp_path_factory.mktemp("small") / "edition"
    fill(folder, ROOT, ONE)
    return {f"transformers/{name}": data for name, data in read_folder(folder).items()}


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    def works(*_: object) -> None:
        pytest.fail("it began to work")

    monkeypatch.setattr(editions, "fill", works)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("held", ["text", "folder", "copy", "nothing"])
def test_a_zip_that_no_release_wrote_is_never_replaced(tmp_path: Path, held: str, small: dict[str, bytes]) -> None:
    path = tmp_path / "week.zip"
    if held == "folder":
        path.mkdir()
    elif held == "text":
        path.write_text("the only copy of my marks", encoding="utf-8")
    elif held == "nothing":
        path.write_bytes(b"")
    else:  # somebody's own copy of a release, with an answer beside
        assert course_release._is_release(small, "week.zip")
        write_zip(path, {**small, "transformers/answers/6.1.md": b"Mine.\n"})
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ValueError, match=r"expected .*week\.zip to be free or of an earlier release, got another"):
        course_release.release(tmp_path / "week", ONE)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert [one.name for one in tmp_path.iterdir()] == ["week.zip"]
    graders = tmp_path / "next-gradescope.zip"
    graders.write_bytes(zip_bytes({"setup.sh": b"mine"}))
    with pytest.raises(ValueError, match=r"expected .*next-gradescope\.zip to be free or of an earlier release"):
        course_release.release(tmp_path / "next", ONE, autograder={})


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("out", [".", "..", "below/..", "", "below"])
def test_a_place_that_cannot_be_replaced_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    (tmp_path / "here" / "below" / "mine.txt").write_text("mine", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    told = "which holds something else" if out == "below" else "expected a folder that you do not stand in, got .*name"
    with pytest.raises(ValueError, match=told):
        course_release.release(out, ONE)
    assert (tmp_path / "here" / "below" / "mine.txt").is_file()


@pytest.mark.usefixtures("quick")
def test_a_release_over_its_own_former_output_has_the_same_bytes(tmp_path: Path) -> None:
    def write(options: Options) -> dict[str, bytes]:
        course_release.release(tmp_path / "week", options, autograder={"setup.sh": "a", "run_autograder": "b"})
        return {path.name: path.read_bytes() for path in tmp_path.glob("*.zip")}

    first = write(ONE)
    assert set(first) == {"week.zip", "week-gradescope.zip"}
    assert write(ONE) == first
    assert write(Options(notebooks=("01",)))["week.zip"] != first["week.zip"], "another release takes its place"


# ---------------------------------------------------------------- every proof can fail


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    for name in ("cs_transformers", "docs", "notebooks"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    return source


def change(path: Path, old: str, new: str) -> None:
    text = read_source(path)
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def filled(source: Path, tmp_path: Path, options: Options = ONE) -> Path:
    fill(tmp_path / "fresh", source, options)
    return tmp_path / "fresh"


def put_to_the_proof(source: Path, fresh: Path, colour: str) -> None:
    solved = reference_answers(source / "cs_transformers")
    if colour == "red":
        proofs.prove_red("2.3", fresh, solved, shared_worker())
    else:
        proofs.prove_green(fresh, edition.load(fresh / "cs_transformers"), solved, print)


def test_a_solution_that_its_own_check_refuses_stops_the_release(source: Path, tmp_path: Path) -> None:
    positional = source / "cs_transformers" / "positional.py"
    body = lift(read_source(positional))["2.3"].body
    change(positional, body, "    return x * 2\n")
    with pytest.raises(ValueError, match=r"expected 2\.3 to pass with its solution put back, got wrong \(0 of 3\); "):
        put_to_the_proof(source, filled(source, tmp_path), "green")


def test_a_check_that_does_not_call_what_it_judges_stops_the_release(source: Path, tmp_path: Path) -> None:
    definitions = source / "cs_transformers" / "checks" / "definitions" / "positional.py"
    text = read_source(definitions)
    definitions.write_text(text + BLIND, encoding="utf-8")
    with pytest.raises(ValueError, match=r"2\.3 to fail on the stub, got no word of the stub .*what it judges"):
        put_to_the_proof(source, filled(source, tmp_path), "red")


BLIND = """

@check("2.3")
def _blind(probe):
    for part in ("values", "gradients", "invariant: distance alone decides"):
        with probe.part(part):
            probe.record("nothing", torch.zeros(1))
"""


def test_what_a_stock_machine_lacks_stops_the_release(source: Path, tmp_path: Path) -> None:
    change(
        source / "cs_transformers" / "course" / "doctor.py", "import platform\n", "import platform\nimport nbformat\n"
    )
    with pytest.raises(ValueError, match=r"every module to import, got ImportError: not on a stock machine: nbformat"):
        proofs.prove_imports(filled(source, tmp_path))


def test_an_import_of_an_instructors_module_stops_the_release(source: Path, tmp_path: Path) -> None:
    path = source / "cs_transformers" / "course" / "doctor.py"
    change(path, "import platform\n", "import platform\nfrom cs_transformers.grading import model\n")
    with pytest.raises(ValueError, match=r"got ImportError: not in the edition: cs_transformers\.grading"):
        proofs.prove_imports(filled(source, tmp_path))


def test_a_region_without_a_row_stops_the_release(source: Path, tmp_path: Path) -> None:
    path = source / "cs_transformers" / "positional.py"
    extra = "\n\ndef _more():\n    ### BEGIN SOLUTION 2.9\n    return 1\n    ### END SOLUTION 2.9\n"
    path.write_text(read_source(path) + extra, encoding="utf-8")
    fresh = filled(source, tmp_path)
    with pytest.raises(ValueError, match=r"got 2\.9 only in a source file; add its row or its region"):
        proofs.prove_regions(fresh, edition.load(fresh / "cs_transformers"))


def test_a_notebook_that_is_not_there_stops_the_release(source: Path, tmp_path: Path) -> None:
    (source / "notebooks" / "02_positional_encoding.ipynb").unlink()
    fresh = filled(source, tmp_path)
    with pytest.raises(ValueError, match=r"expected notebooks/02_positional_encoding\.ipynb, got none; write it"):
        proofs.prove_regions(fresh, edition.load(fresh / "cs_transformers"))


def test_an_exercise_in_two_files_stops_the_release(source: Path, tmp_path: Path) -> None:
    path = source / "cs_transformers" / "vit.py"
    extra = "\n\ndef _more():\n    ### BEGIN SOLUTION 2.3\n    return 1\n    ### END SOLUTION 2.3\n"
    path.write_text(read_source(path) + extra, encoding="utf-8")
    with pytest.raises(ValueError, match=r"vit\.py, line \d+: SOLUTION 2\.3 is in positional\.py as well; keep one"):
        filled(source, tmp_path)


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("### BEGIN SOLUTION 2.9", r"positional\.py, line \d+: SOLUTION 2\.9 has no END marker"),
        ("### BEGIN SOLVED 2.9", r"positional\.py, line \d+: unknown marker"),
        ("### END SOLUTION 2.9", r"positional\.py, line \d+: END of SOLUTION 2\.9 meets no open region"),
    ],
)
def test_broken_markers_stop_the_release(source: Path, tmp_path: Path, marker: str, told: str) -> None:
    path = source / "cs_transformers" / "positional.py"
    path.write_text(f"{read_source(path)}\n{marker}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=told):
        editions.write_edition(tmp_path / "out", ONE, source)
    assert not (tmp_path / "out").exists()


def test_an_instructors_file_that_slipped_in_stops_the_release(source: Path, tmp_path: Path) -> None:
    fresh = filled(source, tmp_path)
    proofs.prove(fresh, source, ONE)
    for name in ("grading/judging.py", "checks/mistakes/1_1/x.py", "cli/author.py", "course/solutions.py"):
        path = fresh / "cs_transformers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n", encoding="utf-8")
        with pytest.raises(ValueError, match=f"expected no instructor's file in it, got {name}; leave it out"):
            proofs.prove(fresh, source, ONE)
        path.unlink()


def test_a_solution_in_the_stored_copy_a_notebook_or_a_model_text_is_found(source: Path, tmp_path: Path) -> None:
    fresh, options = filled(source, tmp_path, Options()), Options()
    body = lift(read_source(source / "cs_transformers" / "attention.py"))["1.8"].body
    notebook = fresh / "notebooks" / "01_attention.ipynb"
    content = json.loads(read_source(notebook))
    content["cells"].append({"cell_type": "markdown", "source": body})
    texts = {
        fresh / "cs_transformers" / "hidden.zip": None,
        notebook: json.dumps(content),
        fresh / "README.md": "\n".join(proofs.solutions(source)[0]["06_inline_questions.ipynb: %%answer 6.2"]),
        fresh / "datasets.md": next(iter(EXERCISES["6.2"].rubric)),
    }
    for path, text in texts.items():
        before = path.read_bytes() if path.exists() else None
        if text is None:
            write_zip(path, {"attention.py": body.encode()})
        else:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=f"expected no solution in it, got .*{path.name}"):
            proofs.prove(fresh, source, options)
        path.unlink()
        if before is not None:
            path.write_bytes(before)
    proofs.prove(fresh, source, options)


def test_what_changes_from_run_to_run_stops_the_release(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, real = filled(source, tmp_path), editions.fill

    def dated(folder: Path, source: Path, options: Options) -> edition.Edition:
        planned = real(folder, source, options)
        (folder / "README.md").write_text(str(folder), encoding="utf-8")
        return planned

    course_release.prove_repeatable(fresh, source, ONE)
    monkeypatch.setattr(editions, "fill", dated)
    with pytest.raises(ValueError, match=r"expected the same bytes when written again, got another README\.md"):
        course_release.prove_repeatable(fresh, source, ONE)


def test_a_failed_proof_leaves_everything_as_it_was(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(proofs, "prove_by_running", fails)
    with pytest.raises(ValueError, match="no"):
        course_release.release(tmp_path / "out", ONE, source)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


# ---------------------------------------------------------------- a badge opens one notebook alone


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that a server on loopback hands out, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing on the test's stderr."""

    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


COLAB = """
import pathlib

def mount(point):
    (pathlib.Path(point) / "MyDrive").mkdir(parents=True, exist_ok=True)
"""


def opened(folder: Path, notebook: Path, *replaced: tuple[str, str]) -> dict[str, str]:
    """Run one notebook's first cell, a check and a question in a kernel that takes itself for Colab's."""
    fakes = folder.parent / "fakes" / "google" / "colab"
    if not fakes.exists():
        fakes.mkdir(parents=True)
        (fakes / "drive.py").write_text(COLAB, encoding="utf-8")
        (fakes / "__init__.py").write_text("from . import drive\n", encoding="utf-8")
        (fakes.parents[1] / "sitecustomize.py").write_text("import google.colab\n", encoding="utf-8")
    whole = notebooks.read(notebook)
    setup = next(cell for cell in whole.cells if cell.cell_type == "code")
    for old, new in replaced:
        assert old in setup.source
        setup.source = setup.source.replace(old, new)
    more = [nbformat.v4.new_code_cell(text) for text in (CHECK, "%%answer 6.2\nBecause of Drive.")]
    small = nbformat.v4.new_notebook(cells=[setup, *more])
    environment = {"PYTHONPATH": str(fakes.parents[1]), "COLUMNS": "200"}
    notebooks.execute(small, folder, environment=environment)
    assert not notebooks.errors(small), notebooks.errors(small)
    outputs = ["".join(output.get("text", "") for output in cell.outputs) for cell in small.cells]
    return {"setup": outputs[0], "check": outputs[1]}


CHECK = "from cs_transformers.checks import check\ncheck('1.4')"


def test_a_notebook_opened_alone_fetches_the_course_and_the_work_survives(
    site: tuple[Path, str], tmp_path: Path
) -> None:
    folder, address = site
    work = editions.write_edition(tmp_path / "work", Options(url=f"{address}/course.zip", notebooks=("01",)))
    files = {f"course-main/{name}": data for name, data in read_folder(work).items()}
    write_zip(folder / "course.zip", files)
    notebook = work / "notebooks" / "01_attention.ipynb"
    content = tmp_path / "content"
    content.mkdir()
    first = opened(content, notebook)
    assert first["check"] == "1.4 causal_mask: not attempted (0 of 2 points)\n"
    assert f"Your work is in {content / 'transformers'}, which Colab deletes" in first["setup"]

    mine = content / "transformers" / "cs_transformers" / "attention.py"
    triangle = "torch.ones(target_length, source_length, dtype=torch.bool, device=device)"
    body = f"return {triangle}.tril(source_length - target_length)"
    change(mine, 'raise NotImplementedError("exercise 1.4 is not written yet")', body)
    (folder / "course.zip").unlink()  # the next day, and no network either
    again = opened(content, notebook)
    assert again["check"] == "1.4 causal_mask: passed (2 of 2 points)\n"
    assert (content / "transformers" / "answers" / "6.2.md").read_text(encoding="utf-8") == "Because of Drive.\n"


def test_with_drive_the_course_lands_there_and_is_found_again(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    work = editions.write_edition(tmp_path / "work", Options(url=f"{address}/course.zip", notebooks=("01",)))
    write_zip(folder / "course.zip", read_folder(work))
    content = tmp_path / "content"
    content.mkdir()
    on_drive = ("USE_DRIVE = False", "USE_DRIVE = True")
    first = opened(content, work / "notebooks" / "01_attention.ipynb", on_drive)
    assert first["check"].startswith("1.4 causal_mask: not attempted")
    assert "Colab deletes" not in first["setup"]
    home = content / "drive" / "MyDrive" / "transformers"
    assert (home / "answers" / "6.2.md").is_file()
    assert [path.name for path in content.iterdir()] == ["drive"]


def test_every_released_notebook_runs_to_its_end_on_the_stubs(released: Path, tmp_path: Path) -> None:
    """*Run All* on the first day: one of the short notebooks here; every notebook by `make test-all`."""
    run_all(released, tmp_path, ("02",))


@pytest.mark.slow
def test_all_released_notebooks_run_to_their_end_on_the_stubs(released: Path, tmp_path: Path) -> None:
    run_all(released, tmp_path, tuple(number for number in NOTEBOOKS if number != "02"))


def run_all(released: Path, tmp_path: Path, numbers: tuple[str, ...]) -> None:
    shutil.copytree(released / "release", tmp_path / "work")
    command = [sys.executable, "-m", "cs_transformers", "run", *numbers]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", cli.RESTARTED)}
    environment["COLUMNS"] = "200"
    ran = subprocess.run(command, cwd=tmp_path / "work", env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    own = [one for one in EXERCISES.values() if one.notebook in numbers and one.parts]
    for one in own:
        assert [line for line in ran.stdout.splitlines() if one.id in line and "not attempted" in line], ran.stdout
    assert "Error" not in ran.stdout, ran.stdout
