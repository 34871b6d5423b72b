"""Confining a process: what of the disk is shown, who is below whom, limits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from cs_transformers.checks import confine

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone has what is confined with")


def test_outer_folders_are_shown_before_inner_ones_are_hidden_and_inner_ones_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, interpreter = tmp_path / "checkout", tmp_path / "checkout" / "venv"
    interpreter.mkdir(parents=True)
    for name in ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(interpreter))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(checkout), str(tmp_path / "nothing of it is loaded"), ""])
    loaded = types.SimpleNamespace(__file__=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setitem(sys.modules, "loaded_from_there", loaded)
    plan = [(place, show) for place, show in confine._plan([str(checkout)]) if place.startswith(str(tmp_path))]
    assert plan == [(str(tmp_path), True), (str(checkout), False), (str(interpreter), True)]
    monkeypatch.setattr(sys, "path", [str(checkout)])
    plan = [(place, show) for place, show in confine._plan([str(checkout)]) if place.startswith(str(tmp_path))]
    assert plan == [(str(interpreter), True)], "what nobody shows need not be hidden"


def test_processes_below_a_process_are_found_and_gone_ones_have_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in confine.descendants(os.getpid())
        deadline = time.monotonic() + 60
        while confine.own_memory(child.pid) == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert confine.own_memory(child.pid) > 0
        child.kill()
    assert child.pid not in confine.descendants(os.getpid())
    assert confine.own_memory(child.pid) == 0


@pytest.mark.parametrize(
    ("passed", "computed", "waited", "left"),
    [
        (20, 20, 0, 0),  # a loop on a quiet machine
        (20, 10, 10, 10),  # the same, on one that has twice as much to do
        (40, 20, 20, 0),
        (20, 0, 0, 0),  # it sleeps
        (20, 1, 3, 3),  # it sleeps where others compute
        (20, 35, 19, -15),  # several processes share its limit
        (80, 5, 75, 0),  # nobody waits for ever
    ],
)
def test_time_in_which_an_answer_got_no_processor_does_not_count(
    passed: float, computed: float, waited: float, left: float
) -> None:
    assert confine.time_left(20, 80, passed, computed, waited) == left


def test_what_a_process_computes_and_waits_for_is_counted_and_nothing_of_one_that_is_gone() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint('.', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.read(1)
        assert 0.4 < confine.computed(child.pid) < 5
        assert confine.waited(child.pid) > 0
        child.kill()
    assert (confine.computed(child.pid), confine.waited(child.pid)) == (0, 0)


def test_limits_of_an_unknown_system_call_are_told_by_name() -> None:
    with pytest.raises(OSError, match="umount2: "):
        confine._call("umount2", b"/no/such/mount", 0)


def test_levels_say_what_they_have() -> None:
    assert [level for level in confine.LEVELS if confine.has_namespaces(level)] == ["user namespaces", "namespaces"]
    assert [level for level in confine.LEVELS if confine.has_own_user(level)] == ["own user", "namespaces"]
    assert 60_000 <= confine.own_user() < 65_000


def test_limits_hold_for_the_process_that_sets_them() -> None:
    code = (
        "import importlib.util, resource, sys\n"
        f"spec = importlib.util.spec_from_file_location('confine', {confine.__file__!r})\n"
        "confine = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(confine)\n"
        "confine.limit(7.0, 1 << 30, 'processes')\n"
        "print(resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_FSIZE)[0] >> 20,\n"
        "      resource.getrlimit(resource.RLIMIT_CORE)[0], resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    print('no memory')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:2] == ["9 64 0 256", "no memory"]
