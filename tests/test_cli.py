"""The command line: what each command prints, and exit codes that mean something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import checks, cli
from cs_transformers.checks.verdict import Verdict
from cs_transformers.course.editions import Options, write_edition

ROOT = Path(__file__).resolve().parent.parent
GROUPS = {"": cli.app, "data": cli.data_app, "train": cli.train_app}
COMMANDS = [
    f"{group} {one.name or one.callback.__name__}".strip()
    for group, app in GROUPS.items()
    for one in app.registered_commands
]


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(cli.app, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_an_example(command: str) -> None:
    code, text = call(*command.split(), "--help")
    assert code == 0
    assert f"Example: cst {command}" in text


def test_the_commands_are_the_documented_ones() -> None:
    """A command that is added or lost unnoticed fails here."""
    core = {"run", "check", "hint", "doctor", "submit", "update", "solution"}
    author = {"student", "release", "refresh", "execute"}
    grading = {"grade", "explain", "diff", "inline"}
    data = {"data list", "data get", "data make", "data features"}
    topics = {"train translate", "translate", "train restore", "restore", "train detect", "detect"}
    assert set(COMMANDS) == core | author | grading | data | {"train caption", "train vit"} | topics


def test_check_of_one_exercise_prints_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, expected in (("passed", 0), ("awaiting review", 0), ("wrong", 1), ("not attempted", 1), ("stopped", 1)):
        verdict = Verdict("1.1", "attention_scores", state, points=3, out_of=3, parts={"values": True}, output="mine\n")
        monkeypatch.setattr(checks, "run", lambda _, verdict=verdict: verdict)
        code, text = call("check", "1.1", "--details")
        assert code == expected
        assert text.startswith(f"1.1 attention_scores: {state} (3 of 3 points)\n")
        assert "passed  values" in text
        assert "  your code printed:\nmine\n" in text
        assert text.endswith("checked: the solutions of the instructor edition in this folder\n")


def test_several_exercises_and_whole_notebooks_are_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(id: str) -> Verdict:
        line = 'it needs 1.2 attention_weights: check("1.2"); hint("2.2") says more'
        return Verdict(id, "f", "wrong", out_of=1, lines=[line]) if id == "2.2" else Verdict(id, "f", "passed", 1, 1)

    monkeypatch.setattr(checks, "run", run)
    for words in (["2"], ["02"], ["2.1", "2.2", "2.3"]):
        code, text = call("check", *words)
        assert code == 1
        assert text.splitlines()[:5] == [
            "2.1 f: passed (1 of 1 points)",
            "2.2 f: wrong (0 of 1 points)",
            "  it needs 1.2 attention_weights: `cst check 1.2`; `cst hint 2.2` says more",
            "2.3 f: passed (1 of 1 points)",
            "2 of 3 automatic points",
        ]
    assert call("check", "2.1", "2.3")[0] == 0


def test_a_part_that_was_not_judged_is_not_said_to_have_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict("1.4", "causal_mask", "wrong", out_of=2, parts={"values": False, "values: the device": None})
    monkeypatch.setattr(checks, "run", lambda _: verdict)
    assert "  not passed  values\n  not judged  values: the device\n" in call("check", "1.4", "--details")[1]


def test_check_of_all_is_a_table_with_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [
        Verdict("1.1", "attention_scores", "passed", points=3, out_of=3),
        Verdict("1.2", "attention_weights", "blocked", out_of=4, detail="by 1.1"),
        Verdict("6.2", "ViT and CNN", "awaiting review", review=4),
    ]
    monkeypatch.setattr(checks, "run_all", lambda progress: [progress(one) or one for one in verdicts])
    code, text = call("check")
    assert code == 1
    assert "blocked by 1.1" in text
    assert "3 of 7 automatic points; 4 more are for texts" in text


def test_a_run_goes_on_past_what_it_cannot_read_and_prints_problems_as_they_are(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    cell = nbformat.v4.new_code_cell("raise ValueError('got [rows] or [/columns]')")
    (tmp_path / "01_attention.ipynb").write_bytes(b"<!DOCTYPE html>")
    (tmp_path / "02_positional_encoding.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    code, text = call("run", "--folder", str(tmp_path), "--out", str(tmp_path / "run"))
    assert code == 1
    assert "01_attention 01_attention.ipynb is no notebook: it begins with '<!DOCTYPE html>'" in text
    assert "02_positional_encoding cell 0: ValueError: got [rows] or [/columns]" in text


def test_a_machine_in_order_has_exit_code_0() -> None:
    code, text = call("doctor")
    assert code == 0
    assert "cs_transformers" in text
    assert "embedded data" in text


def test_a_missing_package_is_trouble_and_told_how_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    from cs_transformers.course import doctor

    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "scipy" else version(name))
    code, text = call("doctor")
    assert code == 3
    assert "pip install scipy" in text


def test_doctor_says_that_the_accelerator_of_an_apple_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert "Apple's GPU is left alone" in call("doctor")[1]


def test_standing_beside_another_copy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cs_transformers").mkdir()
    monkeypatch.chdir(tmp_path)
    code, text = call("doctor")
    assert code == 3
    assert "you stand beside another copy" in text


def test_doctor_cuts_no_path_and_counts_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    from cs_transformers.course import doctor

    home = Path("/srv/a-student-with-a-long-name") / "courses" / "of this year" / "[work]"
    monkeypatch.setattr(doctor, "course_home", lambda: home)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(cli.app, ["doctor"], catch_exceptions=False)
    cells = [line.split("│")[2].strip() for line in result.output.splitlines() if line.startswith("│")]
    assert str(home).replace(" ", "") in "".join(cells).replace(" ", "")
    assert "…" not in result.output
    assert "cpu, 1 thread" in cells


def run_cst(*arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", cli.RESTARTED)}
    environment["COLUMNS"] = "400"  # no path is broken over two lines
    return subprocess.run(
        [sys.executable, "-c", "from cs_transformers.cli import main; main()", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["check", "9.99"], 2, "cst: exercise: expected an exercise such as"),
        (["hint", "1.1", "--step", "7"], 2, "cst: hint: expected a step from 1 to 3, got 7"),
        (["data", "get", "nothing"], 2, "cst: data_set_state: expected one of coco-captions"),
        (["run", "99"], 2, "cst: expected numbers of notebooks"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], code: int, told: str, tmp_path: Path) -> None:
    result = run_cst(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert told in result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's copy in the making: notebook 01 alone."""
    return write_edition(tmp_path_factory.mktemp("place") / "work", Options(notebooks=("01",)))


def test_the_line_below_a_check_names_the_copy_of_the_folder_one_stands_in(work: Path) -> None:
    for folder, place in ((work, "this folder"), (work / "notebooks", str(work))):
        result = run_cst("check", "1.4", cwd=folder)
        assert result.stdout.splitlines() == [
            "1.4 causal_mask: not attempted (0 of 2 points)", f"checked: the copy of the course in {place}",
        ]  # fmt: skip
    above = run_cst("check", "6.2", cwd=work.parent)
    assert above.stdout.splitlines()[-1].startswith("checked: the solutions of the instructor edition in ")


def test_the_instructor_edition_is_not_handed_in(work: Path) -> None:
    result = run_cst("submit", "--no-check", cwd=work.parent)
    assert result.returncode == 2
    assert "cst: submit: expected a student's copy, got the instructor edition" in result.stderr
    assert "`make student` writes a copy into work/: go there (cd work)" in result.stderr
    assert not list(work.parent.glob("*.zip"))
    handed = run_cst("submit", "--no-check", cwd=work)
    assert "made from: the copy of the course in this folder\n" in handed.stdout


def test_the_next_hint_comes_with_the_next_command_and_is_no_part_of_what_is_handed_in(work: Path) -> None:
    told = [run_cst("hint", "1.2", "1.3", cwd=work).stdout.splitlines() for _ in range(4)]
    assert [[line.partition(" of 3")[0].rpartition(" ")[2] for line in lines] for lines in told[:3]] == [
        ["1", "1"], ["2", "2"], ["3", "3"],
    ]  # fmt: skip
    assert told[3][0] == "1.2 attention_weights: these were all 3 hints; `cst hint 1.2 --step 2` shows one again"
    assert run_cst("hint", "1.2", "--step", "2", cwd=work).stdout.splitlines() == told[1][:1]
    run_cst("submit", "--no-check", "-o", "handed.zip", cwd=work)
    with zipfile.ZipFile(work / "handed.zip") as archive:
        assert not [name for name in archive.namelist() if "hints" in name]


def test_cst_uses_the_copy_of_the_folder_one_stands_in(tmp_path: Path) -> None:
    """The student edition lies beside the instructor's environment: its own package must be the one checked."""
    copy = tmp_path / "work" / "cs_transformers"
    shutil.copytree(ROOT / "cs_transformers", copy, ignore=shutil.ignore_patterns("__pycache__", "mistakes"))
    inside = copy.parent / "notebooks"
    inside.mkdir()
    result = run_cst("doctor", cwd=inside)
    assert result.returncode == 0, result.stderr
    imported = next(line for line in result.stdout.splitlines() if " cs_transformers " in line)
    assert f" {copy.parent.resolve()} " in imported
