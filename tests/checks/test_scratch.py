"""Folders for a moment: those of the dead are swept, those of the living and of others never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cs_transformers.checks import scratch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="elsewhere nothing is swept")
MAKE = """
import os, pathlib, signal, sys
from cs_transformers.checks import scratch
made = scratch.folder("tree", sys.argv[1])
(pathlib.Path(made.name) / "below").mkdir()
(pathlib.Path(made.name) / "below" / "file.py").write_text("x = 1")
print(made.name, flush=True)
if len(sys.argv) > 2:
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def made_by_a_killed_process(place: Path) -> Path:
    command = [sys.executable, "-c", MAKE, str(place), "killed"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    return Path(ran.stdout.strip())


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = made_by_a_killed_process(tmp_path)
    assert (left / "below" / "file.py").is_file()
    assert scratch.sweep([tmp_path, tmp_path / "no such folder"]) == [left]
    assert list(tmp_path.iterdir()) == []


def test_the_first_folder_of_a_process_takes_leftovers_along(tmp_path: Path) -> None:
    left = made_by_a_killed_process(tmp_path)
    code = "from cs_transformers.checks import scratch\nwith scratch.folder('tree') as made: print(made)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert Path(ran.stdout.strip()).parent == tmp_path
    assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_uses_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        theirs = Path(other.stdout.readline().strip())
        with scratch.folder("tree", str(tmp_path)) as mine:
            assert scratch.sweep([tmp_path]) == []
            assert Path(mine).is_dir()
        assert (theirs / "below" / "file.py").is_file()
        other.stdin.close()


def test_a_number_that_another_process_bears_by_now_protects_nothing(tmp_path: Path) -> None:
    with scratch.folder("tree", str(tmp_path)) as mine:
        born = scratch._born(os.getpid())
        if born == 0:
            pytest.skip("the system does not say when a process began")
        old = tmp_path / Path(mine).name.replace(f"-{born}-", f"-{born + 1}-")
        old.mkdir()
        assert scratch.sweep([tmp_path]) == [old]


def test_other_names_other_machines_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = made_by_a_killed_process(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "answer.py").write_text("mine", encoding="utf-8")
    machine = scratch._machine()
    foreign = tmp_path / left.name.replace(machine, "0" * 8)
    link, file = tmp_path / f"{left.name}a", tmp_path / f"{left.name}b"
    longer, older = tmp_path / f"{left.name}.zip", tmp_path / "cst-tree-abcdefgh-1"
    foreign.mkdir()
    older.mkdir()
    longer.mkdir()
    link.symlink_to(work)
    file.write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(scratch.os, "getuid", lambda: os.geteuid() + 1)
        assert scratch.sweep([tmp_path]) == []
    assert scratch.sweep([tmp_path]) == [left]
    assert sorted(tmp_path.iterdir()) == [path for path in before if path != left]
    assert (work / "answer.py").is_file()
