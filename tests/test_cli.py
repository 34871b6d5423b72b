"""The command line: what each command prints, and exit codes that mean something."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cs_transformers import checks, cli
from cs_transformers.checks.verdict import Verdict

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
        assert text.endswith("mine\n")


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
