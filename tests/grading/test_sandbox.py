"""The sandbox: what each tier keeps apart, which one is taken, and that nothing outlives a job or the judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cs_transformers.checks import client, confine
from cs_transformers.checks.client import Answer, Job, Worker
from cs_transformers.checks.tree import PACKAGE, Answers, pristine_sources, rebuild
from cs_transformers.grading import sandbox as sandboxes
from cs_transformers.grading.judging import Judge
from cs_transformers.grading.sandbox import FRESH, TIERS, Probed, Sandbox, SandboxError

LINUX = sys.platform.startswith("linux")
DEFINITION = """
import os, pathlib, socket, time
import numpy as np
from .probe import check

@check("world")
def _world(probe):
    with probe.part("values"):
        probe.record("parent", os.getppid())
        probe.record("scratch", " ".join(sorted(os.listdir("."))))
        probe.record("temporary", " ".join(sorted(os.listdir("/tmp"))))
        probe.record("top", " ".join(sorted(os.listdir("/"))))
        probe.record("processes", " ".join(name for name in os.listdir("/proc") if name.isdigit()))
        probe.record("environment", " ".join(sorted(os.environ)))
        probe.record("status", pathlib.Path("/proc/self/status").read_text())
        probe.record("open", len(os.listdir("/proc/self/fd")))
        probe.record("interfaces", " ".join(name for _, name in socket.if_nameindex()))
        pathlib.Path("note").write_text("mine")
        pathlib.Path("/tmp/note").write_text("mine")

@check("look")
def _look(probe):
    with probe.part("values"):
        for name, path in probe.given.items():
            path = path.tobytes().decode()
            try:
                os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
                probe.record(name.partition("/")[2], len(os.listdir(path)) if os.path.isdir(path) else 1)
            except OSError:
                probe.record(name.partition("/")[2], 0)

@check("sleep")
def _sleep(probe):
    pid = os.fork()
    while True:
        time.sleep(0.1)

@check("compute")
def _compute(probe):
    with probe.part("values"):
        begun, seconds = time.monotonic(), float(probe.given["seconds"])
        while time.process_time() < seconds:
            pass
        probe.record("by the clock", time.monotonic() - begun)

@check("double")
def _double(probe):
    with probe.part("values"):
        time.sleep(0.3)
        probe.record("double", probe.given["x"] * 2)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tree").resolve()
    rebuild(folder, pristine_sources(), Answers())
    (folder / "cs_transformers" / "checks" / "definitions" / "trial.py").write_text(DEFINITION, encoding="utf-8")
    return str(folder)


_made: dict[str, Sandbox | str] = {}


def sandbox_of(tier: str) -> Sandbox:
    """One sandbox of a tier for all tests, or a skip with the reason."""
    if tier not in _made:
        try:
            _made[tier] = Sandbox(tier)
        except SandboxError as error:
            _made[tier] = str(error)
    made = _made[tier]
    if isinstance(made, str):
        pytest.skip(made)
    return made


@pytest.fixture(scope="module", autouse=True)
def _closed(judge: Judge) -> Iterator[None]:
    _made[judge.sandbox.tier] = judge.sandbox
    yield
    del _made[judge.sandbox.tier]
    for made in _made.values():
        if isinstance(made, Sandbox):
            made.close()
    _made.clear()


def job(tree: str, check: str, **fields: object) -> Job:
    return Job(tree, "trial", check, 3, **fields)


def path(text: object) -> np.ndarray:
    return np.frombuffer(os.fsencode(str(text)), dtype=np.uint8)


def world(answer: Answer) -> dict[str, str]:
    assert answer.state == "answered", answer
    assert not answer.errors, answer.errors
    return {key.partition("/")[2]: text for key, text in answer.texts.items()} | {
        key.partition("/")[2]: int(value) for key, value in answer.arrays.items()
    }


NAMESPACES = ["namespaces", "user namespaces"]


@pytest.mark.parametrize("tier", [*TIERS[:2], *(pytest.param(tier, marks=pytest.mark.slow) for tier in TIERS[2:])])
def test_every_tier_that_works_here_runs_an_answer_and_says_what_it_isolates(tier: str, tree: str) -> None:
    sandbox = sandbox_of(tier)
    assert sandbox.tier == tier
    assert sandbox.describe().startswith(tier)
    answer = sandbox.run(job(tree, "double", arrays={"x": np.arange(3.0)}))
    np.testing.assert_array_equal(answer.arrays["values/double"], [0.0, 2.0, 4.0])


@pytest.mark.parametrize("tier", NAMESPACES)
def test_namespaces_keep_files_network_and_processes_apart(tier: str) -> None:
    sandbox = sandbox_of(tier)
    assert all(sandbox.isolates(what) for what in ("files", "network", "processes"))
    assert sandbox.isolates("user") == (tier == "namespaces")


@pytest.mark.parametrize("tier", NAMESPACES)
def test_a_child_sees_an_empty_world(tier: str, tree: str) -> None:
    sandbox = sandbox_of(tier)
    for _ in range(2):  # the second finds nothing of the first
        seen = world(sandbox.run(job(tree, "world")))
        assert seen["parent"] == 1
        assert seen["scratch"] == ""
        assert set(seen["temporary"].split()) <= below_tmp()
        assert not {"home", "root", "mnt", "srv", "var"} & set(seen["top"].split()) - top_of_interpreter()
        assert len(seen["processes"].split()) == 2
        assert seen["interfaces"].split() == ["lo"]
        assert seen["open"] <= 6
        assert "CapEff:\t0000000000000000" in seen["status"]
        assert "NoNewPrivs:\t1" in seen["status"]
        assert set(seen["environment"].split()) <= {
            *sandboxes.PASSED_ON, "HOME", "USER", "LOGNAME", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONIOENCODING",
            "PYTHONDONTWRITEBYTECODE", "CUDA_VISIBLE_DEVICES", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
            "TORCHINDUCTOR_CACHE_DIR",
        }  # fmt: skip


def below_tmp() -> set[str]:
    """What of the folder for temporary files is seen: where the interpreter itself lies in it."""
    places = [Path(place).resolve().parts for place in (sys.prefix, sys.base_prefix, *filter(None, sys.path))]
    return {parts[2] for parts in places if parts[1:2] == ("tmp",) and len(parts) > 2}


def top_of_interpreter() -> set[str]:
    return {Path(place).resolve().parts[1] for place in (sys.prefix, sys.base_prefix, *filter(None, sys.path))}


@pytest.mark.parametrize("tier", NAMESPACES)
def test_solutions_submissions_and_the_judges_files_are_out_of_sight(tier: str, tree: str, tmp_path: Path) -> None:
    sandbox = sandbox_of(tier)
    (tmp_path / "submission.zip").write_bytes(b"x")
    home = PACKAGE.parent
    places = {"references": PACKAGE / "checks" / "references", "mistakes": PACKAGE / "checks" / "mistakes",
              "notebooks": home / "notebooks", "attention": PACKAGE / "attention.py", "submission": tmp_path,
              "beside": tmp_path.parent}  # fmt: skip
    given = {f"given/{name}": path(place) for name, place in places.items()}
    given["given/tree"] = path("/tree/cs_transformers")
    seen = world(sandbox.run(job(tree, "look", arrays=given)))
    assert seen.pop("tree") > 0
    assert set(seen.values()) == {0}, seen


@pytest.mark.slow
@pytest.mark.parametrize("tier", NAMESPACES)
def test_a_folder_below_the_interpreters_own_can_be_hidden(tier: str, tree: str) -> None:
    import tqdm

    hidden = Path(tqdm.__file__).parent
    sandbox_of(tier)
    with Sandbox(tier, hidden=(hidden,)) as sandbox:
        given = {"given/hidden": path(hidden), "given/beside": path(hidden.parent)}
        seen = world(sandbox.run(job(tree, "look", arrays=given)))
    assert seen["hidden"] == 0
    assert seen["beside"] > 0


@pytest.mark.slow
def test_the_strongest_tier_that_works_is_taken() -> None:
    with Sandbox() as sandbox:
        chosen = sandbox.tier
    for stronger in TIERS[: TIERS.index(chosen)]:
        with pytest.raises(SandboxError, match=f"no way to run answers works here .{stronger}"):
            Sandbox(stronger)


@pytest.mark.slow
def test_where_there_is_no_fork_fresh_processes_do(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes.sys, "platform", "darwin")
    with Sandbox() as sandbox:
        assert sandbox.tier == FRESH
        assert not sandbox.isolates("files")
        answer = sandbox.run(job(tree, "double", arrays={"x": np.arange(2.0)}))
    np.testing.assert_array_equal(answer.arrays["values/double"], [0.0, 2.0])


def test_without_root_the_tiers_that_need_it_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes.os, "getuid", lambda: 1000)
    assert sandboxes._impossible("namespaces") == sandboxes._impossible("own user") == "it needs root"
    assert sandboxes._impossible("processes") == ""


def test_a_system_that_refuses_namespaces_is_told_apart_from_an_answer(tree: str) -> None:
    sandbox_of("user namespaces")
    worker = Worker(fork=True, level="user namespaces")
    try:
        worker._base.cleanup()  # nothing to build the root on
        answer = worker.run(job(tree, "world"))
        assert answer.state == "no answer"
        assert answer.detail.startswith("the answer could not be confined: [Errno 2] mount: ")
        assert not sandboxes.probe(worker).works
    finally:
        worker._base = None
        worker.close()


def test_unknown_tiers_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a tier from auto, namespaces"):
        Sandbox("a wish")


@pytest.mark.skipif(not LINUX, reason="forks")
def test_a_required_sandbox_that_is_none_is_refused_by_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "probe", lambda _: Probed(True, frozenset()))
    with pytest.raises(SandboxError, match=r"the best here .processes. is none: files outside .*; run as root"):
        Sandbox("processes", require=True)


def test_a_required_sandbox_that_is_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "probe", lambda _: Probed(True, frozenset({"files", "network", "processes"})))
    monkeypatch.setattr(sandboxes, "_impossible", lambda _: "")
    with Sandbox("user namespaces", require=True) as sandbox:
        assert sandbox.tier == "user namespaces"


def test_no_way_at_all_is_told_with_every_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit('no torch here')", encoding="utf-8")
    monkeypatch.setattr(client, "WORKER", broken)
    with pytest.raises(SandboxError, match=r"no way to run answers works here .*fresh processes: .*no torch here"):
        Sandbox()


def test_several_threads_run_jobs_at_once(tree: str, judge: Judge) -> None:
    sandbox = judge.sandbox
    found: dict[int, float] = {}

    def ask(number: int) -> None:
        answer = sandbox.run(job(tree, "double", arrays={"x": np.asarray(float(number))}))
        found[number] = float(answer.arrays["values/double"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: 2.0 * number for number in range(4)}


@pytest.mark.skipif(not LINUX, reason="looks into /proc")
@pytest.mark.parametrize(("computes", "state"), [(0.8, "answered"), (1e9, "timeout")])
def test_on_a_busy_machine_an_answer_has_the_time_it_computes_and_a_loop_is_run_once(
    tree: str, computes: float, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = sandbox_of(TIERS[0])
    runs: list[float] = []
    once = sandbox._worker._once
    monkeypatch.setattr(sandbox._worker, "_once", lambda one, at: (runs.append(one.seconds), once(one, at))[1])
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    sandbox._worker.warm_up()
    worker, mine = sandbox._worker._process._popen.pid, os.sched_getaffinity(0)
    only = {max(mine)}
    os.sched_setaffinity(worker, only)
    spin = f"import os\nos.sched_setaffinity(0, {only})\nwhile os.getppid() == {os.getpid()}: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(3)]
    try:
        answer = sandbox.run(job(tree, "compute", seconds=1.0, arrays={"seconds": np.asarray(computes)}))
    finally:
        os.sched_setaffinity(worker, mine)
        for other in others:
            other.kill()
            other.wait()
    assert answer.state == state
    assert runs == [1.0]
    if state == "answered" and answer.arrays["values/by the clock"] <= 1.0:
        pytest.skip("the machine gave it a processor at once, so nothing was to be seen")


JUDGE = """
import sys
from cs_transformers.checks.client import Job
from cs_transformers.grading.sandbox import Sandbox

sandbox = Sandbox(sys.argv[1])
print("ready", sandbox._worker._process._popen.pid, flush=True)
sandbox.run(Job(sys.argv[2], "trial", "sleep", 3, seconds=60.0))
"""


@pytest.mark.skipif(not LINUX, reason="looks into /proc")
@pytest.mark.parametrize(
    "tier", [pytest.param("namespaces", marks=[]), pytest.param("processes", marks=pytest.mark.slow)]
)
def test_nothing_outlives_a_judge_that_was_killed(tier: str, tree: str) -> None:
    sandbox_of(tier)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(JUDGE), tier, tree], stdout=subprocess.PIPE, text=True
    ) as judge:
        zygote = int(judge.stdout.readline().split()[1])
        started = _wait(lambda: len(confine.descendants(zygote)) >= (4 if tier == "namespaces" else 3))
        below = {zygote, *confine.descendants(zygote)}
        judge.send_signal(signal.SIGKILL)
    assert started, below
    assert _wait(lambda: not any(_runs(pid) for pid in below)), [pid for pid in below if _runs(pid)]


def _wait(condition: object) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
