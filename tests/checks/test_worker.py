"""The worker process: light, warm, isolated from the trusted side, replaced when it dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from cs_transformers.checks import client
from cs_transformers.checks.client import Job, Worker
from cs_transformers.checks.exchange import BUSY, LOOP
from cs_transformers.checks.tree import PACKAGE, pristine_sources, read_answers, rebuild

DEFINITION = """
import os, sys, time
import numpy as np
import torch
from .probe import check

@check("modules")
def _modules(probe):
    with probe.part("values"):
        probe.record("loaded", " ".join(sorted({name.split(".")[0] for name in sys.modules})))
        probe.record("ours", " ".join(sorted(name for name in sys.modules if name.startswith("cs_transformers"))))
        probe.record("threads", torch.get_num_threads())
        probe.record("open files", len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
        probe.record("cuda", os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
        probe.record("folder", os.getcwd())

@check("echo")
def _echo(probe):
    with probe.part("values"):
        for name, array in probe.given.items():
            probe.record(name, array)
        probe.record("bfloat16", torch.ones(2, dtype=torch.bfloat16))
        probe.record("meta", torch.ones(2, 3, device="meta"))
        probe.record("nothing", None)
        probe.record("yes", True)

@check("dropout")
def _dropout(probe):
    layer, x = torch.nn.Dropout(0.4), torch.ones(2, 3, dtype=torch.float64)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("module", layer.train()(x))
        probe.record("module in eval", layer.eval()(x))
        probe.record("function", torch.nn.functional.dropout(x, 0.4))
        probe.record("function of torch", torch.dropout(x, 0.4, True))
        probe.record("p = 0", torch.nn.functional.dropout(x, 0.0))
        probe.record("another p", torch.nn.functional.dropout(x, 0.2))
    with probe.part("values"):
        probe.record("plain", torch.nn.functional.dropout(x, 0.5))

@check("spin")
def _spin(probe):
    while True:
        pass

@check("unknown part")
def _raises(probe):
    raise RuntimeError("outside of all parts")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tree").resolve()
    rebuild(folder, pristine_sources(), read_answers(PACKAGE, []))
    (folder / "cs_transformers" / "checks" / "definitions" / "trial.py").write_text(DEFINITION, encoding="utf-8")
    return str(folder)


def job(tree: str, check: str, **fields: object) -> Job:
    return Job(tree, "trial", check, seed=3, **fields)


def test_the_worker_starts_with_torch_and_numpy_and_nothing_of_ours() -> None:
    code = (
        "import runpy, sys\nsys.argv = ['worker.py', 'once']\n"
        f"try:\n    runpy.run_path({str(client.WORKER)!r}, run_name='__main__')\nfinally:\n"
        "    print(sorted(name for name in sys.modules if name.startswith('cs_transformers')), 'torch' in sys.modules, "
        "file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=False)
    assert b"[] True" in ran.stderr
    assert ran.stdout.startswith(b"CST1")


def test_a_child_sees_definitions_only_one_thread_and_no_open_file_of_others(worker: Worker, tree: str) -> None:
    answer = worker.run(job(tree, "modules"))
    assert answer.errors == []
    ours = answer.texts["values/ours"].split()
    assert all("definitions" in name for name in ours if name.count(".") > 1)
    assert not {"h5py", "matplotlib", "IPython", "pytest"} & set(answer.texts["values/loaded"].split())
    assert answer.arrays["values/threads"] == 1
    assert answer.arrays["values/open files"] <= 5
    assert answer.texts["values/cuda"] == ""
    assert "cst-scratch-" in answer.texts["values/folder"]
    assert not Path(answer.texts["values/folder"]).exists()


def test_arrays_go_in_and_come_out_as_they_are_with_their_kinds(worker: Worker, tree: str) -> None:
    given = {"floats": np.linspace(0, 1, 5).reshape(1, 5), "ids": np.arange(3, dtype=np.int32)}
    answer = worker.run(job(tree, "echo", arrays=given))
    for name, array in given.items():
        np.testing.assert_array_equal(answer.arrays[f"values/{name}"], array)
    assert answer.kinds["values/floats"] == "float64 array"
    assert answer.kinds["values/ids"] == "int32 array"
    assert answer.kinds["values/bfloat16"] == "bfloat16 tensor"
    assert answer.arrays["values/bfloat16"].dtype == np.float32
    assert answer.arrays["values/meta"].shape == (2, 3)
    assert answer.kinds["values/nothing"] == "NoneType"
    assert "values/nothing" not in answer.arrays
    assert answer.kinds["values/yes"] == "bool"


def test_dropout_becomes_a_factor_of_position_and_p_within_its_part_only(worker: Worker, tree: str) -> None:
    arrays = worker.run(job(tree, "dropout")).arrays
    factor = arrays["dropout/module"]
    assert len(np.unique(factor)) == factor.size
    for same in ("dropout/function", "dropout/function of torch"):
        np.testing.assert_array_equal(arrays[same], factor)
    for off in ("dropout/module in eval", "dropout/p = 0"):
        np.testing.assert_array_equal(arrays[off], 1.0)
    np.testing.assert_allclose(arrays["dropout/another p"] - 1, (factor - 1) / 2)
    assert set(np.unique(arrays["values/plain"])) <= {0.0, 2.0}


def test_an_error_outside_of_all_parts_fails_the_whole_check(worker: Worker, tree: str) -> None:
    (error,) = worker.run(job(tree, "unknown part")).errors
    assert (error["part"], error["type"], error["message"]) == ("call", "RuntimeError", "outside of all parts")


def test_a_check_that_does_not_exist_is_an_error_not_a_hang(worker: Worker, tree: str) -> None:
    (error,) = worker.run(job(tree, "no such check")).errors
    assert error["type"] == "KeyError"


def test_a_worker_that_was_ended_from_outside_is_replaced_and_the_job_run(worker: Worker, tree: str) -> None:
    worker.warm_up()
    worker._process._popen.kill()
    assert worker.run(job(tree, "echo")).state == "answered"


@pytest.mark.skipif(os.name != "posix", reason="where processor time has a limit")
def test_without_forking_a_loop_on_a_busy_machine_is_ended_for_what_it_computes(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    monkeypatch.setattr(client, "PATIENCE", 600)
    worker = Worker(fork=False)
    try:
        assert worker.run(job(tree, "spin", seconds=1.0)).state == "timeout"
    finally:
        worker.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="keeps a process to one processor")
@pytest.mark.parametrize(("patience", "told"), [(600, LOOP), (1, BUSY)])
def test_time_that_is_up_is_a_loop_or_a_machine_too_busy_for_it(
    tree: str, patience: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", patience)
    worker = Worker(fork=True)
    worker.warm_up()
    only = {max(os.sched_getaffinity(0))}
    os.sched_setaffinity(worker._process._popen.pid, only)
    spin = f"import os\nos.sched_setaffinity(0, {only})\nwhile os.getppid() == {os.getpid()}: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    try:
        answer = worker.run(job(tree, "spin", seconds=1.0))
    finally:
        for other in others:
            other.kill()
            other.wait()
        worker.close()
    assert (answer.state, answer.detail) == ("timeout", told)


def test_two_threads_can_share_a_worker(worker: Worker, tree: str) -> None:
    answers: list[str] = []

    def ask() -> None:
        answers.extend(worker.run(job(tree, "echo")).state for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["answered"] * 6


def test_a_worker_that_cannot_start_says_so_and_shows_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tree: str
) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit('no torch here')", encoding="utf-8")
    monkeypatch.setattr(client, "WORKER", broken)
    worker = Worker()
    answer = worker.run(job(tree, "echo"))
    worker.close()
    assert (answer.state, answer.detail) == ("no answer", "the worker did not start")
    assert "no torch here" in answer.output


def test_closing_ends_the_process() -> None:
    worker = Worker()
    worker.warm_up()
    process = worker._process._popen
    worker.close()
    assert process.poll() is not None
    worker.close()


@pytest.mark.skipif(os.name != "posix", reason="sessions are a matter of POSIX")
def test_an_interrupt_of_the_notebook_does_not_reach_the_worker(worker: Worker) -> None:
    worker.warm_up()
    assert os.getsid(worker._process._popen.pid) != os.getsid(0)
