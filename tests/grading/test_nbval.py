"""nbval as a second opinion: the instructor's notebooks on a mended tree, whatever a student's code does to them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from classes import QUICK, RIGHT, Author, Pupil

from cs_transformers.checks import EXERCISES, NOTEBOOKS, tree
from cs_transformers.checks.markers import indented
from cs_transformers.checks.refresh import mistakes_of
from cs_transformers.grading import enclosure, nbval_stage
from cs_transformers.grading.judging import Judge, trains
from cs_transformers.grading.model import Person, Submission
from cs_transformers.grading.nbval_stage import NotebookStage, prepare

NOTEBOOK_FOLDER = tree.PACKAGE.parent / "notebooks"


@pytest.fixture(scope="module")
def judge():
    with Judge(key=b"nbval") as judge:
        yield judge


def cell(id: str, source: str, *, printed: str = "", tags: tuple[str, ...] = ()) -> dict:
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    return {"cell_type": "code", "id": id, "source": source, "metadata": {"tags": list(tags)}, "outputs": outputs,
            "execution_count": 1}  # fmt: skip


def notebook(folder: Path, name: str, *cells: dict) -> Path:
    folder.mkdir(exist_ok=True)
    content = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / f"{name}.ipynb").write_text(json.dumps(content), encoding="utf-8")
    return folder / f"{name}.ipynb"


def submission(judge: Judge, **bodies: str) -> Submission:
    """The solutions with some bodies replaced (``region_1_4="return 1"``)."""
    regions = {file: dict(found) for file, found in judge.solutions.regions.items()}
    for key, body in bodies.items():
        name = key.removeprefix("region_").replace("_", ".")
        file = EXERCISES[name].file
        place = regions[file][name]
        regions[file][name] = replace(place, body=indented(body + "\n", place.indent))
    return Submission(Person("s1"), 1, "s1.zip", "digest", tree.Answers(regions, {}))


# ---- what is run ---------------------------------------------------------------


def test_cells_that_train_and_those_that_need_them_are_left_out(tmp_path: Path) -> None:
    path = notebook(
        tmp_path, "01_attention",
        cell("01-a", "x = 1"),
        cell("01-b", "model = train()\nlosses = [1]", tags=("train",)),
        cell("01-c", "print(losses)\ny = losses[0]"),
        cell("01-d", "print(y)"),
        cell("01-e", "print(x)\nlosses = 3"),
        cell("01-f", "print(losses)"),
        cell("01-g", '# NBVAL_CHECK_OUTPUT\ncheck("1.1")'),
        cell("01-h", '# NBVAL_CHECK_OUTPUT\ncheck("4.6")'),
    )  # fmt: skip
    prepared = prepare(path)
    assert prepared.cells == ["01-a", "01-e", "01-f", "01-g"]
    assert prepared.checks == {"01-g": "1.1"}


def test_every_quick_exercise_has_its_check_cell_in_the_prepared_notebooks(judge: Judge) -> None:
    stage = NotebookStage(judge)
    checked = {id for one in stage.notebooks.values() for id in one.checks.values()}
    wanted = {id for id in EXERCISES if not trains(id) and NOTEBOOKS[EXERCISES[id].notebook].name in stage.notebooks}
    assert {id for id in wanted if EXERCISES[id].parts} <= checked
    assert not {id for id in checked if trains(id)}
    assert stage.wanted(["2.1"], ["1.1", "2.1"]) == ["02_positional_encoding"]
    assert stage.wanted(["2.1"], ["1.1"]) == []
    assert stage.wanted([], list(EXERCISES)) == []


def test_a_run_is_known_by_everything_it_depends_on(judge: Judge) -> None:
    stage, one = NotebookStage(judge), submission(judge)
    name = "02_positional_encoding"
    digest = stage.digest(one, ["2.1", "2.2"], name)
    assert digest == stage.digest(one, ["2.2", "2.1"], name)
    others = [
        (one, ["2.1"], name),
        (replace(one, digest="x"), ["2.1", "2.2"], name),
        (one, ["2.1", "2.2"], "01_attention"),
    ]
    assert len({digest, *(stage.digest(*other) for other in others)}) == 4


# ---- how it is judged ---------------------------------------------------------------


CELLS = ["a", "b", "c", "d"]
PREPARED = nbval_stage.Prepared("01_attention", "{}", CELLS, {"b": "1.1", "c": "1.2", "d": "1.3"})


@pytest.mark.parametrize(
    ("outcomes", "verdicts", "problem"),
    [
        (["passed"] * 4, ["passed"] * 3, ""),
        (["passed", "failed", "passed", "passed"], ["failed", "passed", "passed"], ""),
        (["passed", "timeout", "xpass", "after timeout"], ["timeout", "xpass", "after timeout"], "the limit"),
        (["passed", "timeout", "passed", "passed"], ["timeout", "missing", "missing"], "the limit"),
        (["crashed", "passed", "passed", "failed"], ["missing", "missing", "failed"], "the kernel died"),
        (["passed", "passed"], ["passed", "missing", "missing"], "no report"),
        ([], ["missing"] * 3, "its process died"),
        (["passed", "xpass", "xpass", "xpass"], ["xpass"] * 3, ""),
    ],
)
def test_from_the_first_timeout_on_nothing_counts(
    judge: Judge, outcomes: list[str], verdicts: list[str], problem: str
) -> None:
    stage = NotebookStage(judge)
    stage.notebooks = {"01_attention": PREPARED}
    report = nbval_stage._Report(["01_attention"])
    for id, outcome in zip(CELLS, outcomes, strict=False):
        event = {"event": "ends", "notebook": "01_attention", "cell": id, "outcome": outcome}
        report.take(json.dumps(event).encode() + b"\n")
    run = stage._judged("01_attention", report, "ended")
    assert list(run.verdicts.values()) == verdicts
    assert problem in run.problem
    assert bool(run.problem) == bool(problem)


def test_a_report_that_students_code_wrote_into_is_read_with_suspicion() -> None:
    report = nbval_stage._Report(["01_attention"])
    honest = b'{"event": "ends", "notebook": "01_attention", "cell": "a", "outcome": "failed"}\n'
    report.take(honest[:20])
    report.take(honest[20:])
    for line in (
        b"not json", b"[1]", b'{"event": "ends"}',
        b'{"event": "ends", "notebook": "../x", "cell": "a", "outcome": "passed"}',
        b'{"event": "ends", "notebook": "01_attention", "cell": 1, "outcome": "passed"}',
        b'{"event": "ends", "notebook": "01_attention", "cell": "a", "outcome": "passed"}', b"[" * 100_000,
    ):  # fmt: skip
        report.take(line + b"\n")
    assert report.cells == {"01_attention": {"a": "failed"}}
    assert report.finished(["01_attention", "02_positional_encoding"]) == ["01_attention"]


# ---- real kernels ---------------------------------------------------------------


BODY = """
import os, signal, time, __main__
how = getattr(__main__, 'how', '')
if how == 'die':
    os._exit(0)
while how == 'hang':
    time.sleep(0.1)
if how == 'kill':
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
return torch.ones(target_length, target_length, dtype=torch.bool).tril()
"""


def outcomes(
    judge: Judge, folder: Path, ways: dict[str, str], seconds: float
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Run a small notebook for each way an answer may behave: outcomes of its cells, and problems, by notebook."""
    source = "from cs_transformers.attention import causal_mask\nprint(causal_mask(2).sum().item())"
    for name, way in ways.items():
        notebook(
            folder, name,
            cell("a", 'print("here")', printed="here\n"),
            cell("b", f"how = {way!r}"),
            cell("c", source, printed="3\n"),
            cell("d", 'print("here")', printed="here\n"),
        )  # fmt: skip
    stage = NotebookStage(judge, folder, cell_seconds=seconds, notebook_seconds=600)
    runs = stage.run(submission(judge, region_1_4=BODY.strip()), ["1.4"], list(stage.notebooks))
    assert all(run.student == "s1" and run.digest for run in runs)
    return {run.notebook: list(run.cells.values()) for run in runs}, {run.notebook: run.problem for run in runs}


def test_a_dead_kernel_and_a_dead_pytest_cost_their_own_notebook_only(judge: Judge, tmp_path: Path) -> None:
    """One answer ends its kernel, one the process that watches it, one is fine; nothing waits for the cells' limit."""
    ways = {"01_attention": "die", "02_positional_encoding": "kill", "03_transformer_blocks": ""}
    started = time.monotonic()
    cells, problems = outcomes(judge, tmp_path / "nb", ways, seconds=1800)
    assert time.monotonic() - started < 1800  # waiting for the limit would be half an hour
    assert cells == {
        "01_attention": ["passed", "passed", "crashed", "after timeout"],
        "02_positional_encoding": ["passed", "passed", "missing", "missing"],
        "03_transformer_blocks": ["passed"] * 4,
    }
    assert "the kernel died" in problems["01_attention"]
    assert "there is no report" in problems["02_positional_encoding"]


@pytest.mark.slow
def test_a_cell_that_hangs_ends_the_credit_of_its_notebook(judge: Judge, tmp_path: Path) -> None:
    ways = {"01_attention": "hang", "02_positional_encoding": ""}
    cells, problems = outcomes(judge, tmp_path / "nb", ways, seconds=60)
    assert cells == {"01_attention": ["passed", "passed", "timeout", "xpass"], "02_positional_encoding": ["passed"] * 4}
    assert "it ran into the limit" in problems["01_attention"]


@pytest.mark.skipif(enclosure.tier() != "bubblewrap", reason="bubblewrap is not installed, or not allowed here")
def test_inside_the_enclosure_there_is_loopback_and_nothing_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the grades of others", encoding="utf-8")
    folder = tmp_path / "in"
    folder.mkdir()
    code = f"""
import json, os, socket, sys
from pathlib import Path
def attempt(what):
    try:
        return repr(what())
    except OSError as error:
        return type(error).__name__
server = socket.create_server(("127.0.0.1", 0))
found = {{
    "loopback": attempt(lambda: socket.create_connection(server.getsockname()) and 1),
    "secret": attempt(lambda: open({str(secret)!r}).read()),
    "grader": attempt(lambda: os.listdir({str(tree.PACKAGE)!r})),
    "write": attempt(lambda: open("/usr/evil", "w")),
    "interfaces": attempt(lambda: [name for _, name in socket.if_nameindex()]),
    "processes": attempt(lambda: len([name for name in os.listdir("/proc") if name.isdigit()]) < 10),
    "environment": attempt(lambda: "CST_SECRET" in os.environ),
    "own": attempt(lambda: Path("mine.txt").write_text("x")),
}}
os.write(int(os.environ["OUT"]), json.dumps(found).encode())
"""
    got: list[bytes] = []
    os.environ["CST_SECRET"] = "x"
    try:
        end = enclosure.run(
            [sys.executable, "-c", code], folder, seconds=60, environment={"PATH": os.environ["PATH"]}, report="OUT",
            receive=got.append,
        )  # fmt: skip
    finally:
        del os.environ["CST_SECRET"]
    assert end == "ended"
    assert json.loads(b"".join(got)) == {
        "loopback": "1", "secret": "FileNotFoundError", "grader": "FileNotFoundError", "write": "OSError",
        "interfaces": "['lo']", "processes": "True", "environment": "False", "own": "1",
    }  # fmt: skip


@pytest.mark.parametrize("tier", ["bubblewrap", "process group"])
def test_what_runs_too_long_is_ended_with_everything_it_started(
    tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tier == "bubblewrap" and enclosure.tier() != tier:
        pytest.skip("bubblewrap is not installed, or not allowed here")
    monkeypatch.setattr(enclosure, "tier", lambda: tier)
    code = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "os.write(int(os.environ['OUT']), b'x')\ntime.sleep(600)\n"
    )
    environment = {"PATH": os.environ["PATH"], "CST_ENCLOSURE": str(tmp_path)}
    got: list[bytes] = []
    end = enclosure.run(
        [sys.executable, "-c", code], tmp_path, seconds=5, environment=environment, report="OUT", receive=got.append
    )
    assert (end, got) == ("timeout", [b"x"])
    assert not enclosure._left_in(tmp_path)


@pytest.mark.slow
def test_the_instructors_notebooks_agree_with_the_checks_on_the_solutions(judge: Judge) -> None:
    stage, one = NotebookStage(judge), submission(judge)
    runs = stage.run(one, QUICK, list(stage.notebooks))
    assert {run.notebook: run.problem for run in runs} == dict.fromkeys(stage.notebooks, "")
    for run in runs:
        assert set(run.cells.values()) == {"passed"}, (run.notebook, run.cells)


def test_the_plain_way_gives_one_verdict_per_exercise(tmp_path: Path) -> None:
    """`pytest --nbval notebooks/` with the instructor's notebook over a student's package, and nothing of ours."""
    author = Author()
    mistake = mistakes_of("2.3")[0]
    pupil = Pupil("s1", "Jane", {**dict.fromkeys(QUICK, RIGHT), "2.3": mistake}, "")
    shutil.copytree(
        tree.PACKAGE, tmp_path / "cs_transformers", ignore=shutil.ignore_patterns("__pycache__", "mistakes")
    )
    for file, text in author.sources(pupil).items():
        (tmp_path / "cs_transformers" / file).write_text(text, encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    for name in ("02_positional_encoding.ipynb", "nbval_sanitize.cfg"):
        shutil.copyfile(NOTEBOOK_FOLDER / name, tmp_path / "notebooks" / name)
    command = [
        sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-W", "default", "-c", os.devnull, "--tb=line",
        "--rootdir", str(tmp_path), "--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300",
        "--nbval-sanitize-with", "notebooks/nbval_sanitize.cfg", "notebooks/",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "CST_CACHE_DIR": str(tmp_path / "c"),
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    outcome = re.findall(r"::Cell (\d+) (PASSED|FAILED)", done.stdout)
    cells = json.loads((NOTEBOOK_FOLDER / "02_positional_encoding.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
    start = int(outcome[0][0])  # older versions of nbval count from 0, newer ones from 1
    found = {
        check[1]: result
        for number, result in outcome
        if (check := re.search(r'^check\("(.*)"\)', code[int(number) - start], re.MULTILINE))
    }
    assert found == {"2.1": "PASSED", "2.2": "PASSED", "2.3": "FAILED"}, done.stdout[-3000:]
    assert done.returncode == 1


def test_a_flood_of_cells_in_a_report_fills_no_memory() -> None:
    report = nbval_stage._Report(["01_attention"])
    event = {"event": "ends", "notebook": "01_attention", "outcome": "passed"}
    report.take(b"".join(json.dumps({**event, "cell": f"01-{n}"}).encode() + b"\n" for n in range(5000)))
    assert len(report.cells["01_attention"]) == nbval_stage.MOST_CELLS


@pytest.mark.parametrize(
    ("tier", "options", "warned"),
    [("process group", [], True), ("process group", ["--no-nbval"], False), ("bubblewrap", [], False)],
)
def test_notebooks_without_isolation_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str, options: list[str], warned: bool
) -> None:
    from classroom_factory import classroom
    from typer.testing import CliRunner

    from cs_transformers.cli import app
    from cs_transformers.grading import enclosure, run

    monkeypatch.setattr(run, "grade", lambda *_places, **_options: classroom())
    monkeypatch.setattr(enclosure, "tier", lambda: tier)
    result = CliRunner().invoke(app, ["grade", str(tmp_path), *options], catch_exceptions=False)
    assert ("students' code could read and change your files" in result.output) == warned
