"""Hostile and broken answers: never a pass, never the end of the caller, and the next check is as good as before."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cs_transformers.checks.client import Worker
from cs_transformers.checks.runner import Runner

RIGHT = "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n"
WRONG = "return query @ key.transpose(-2, -1)\n"

# body of 1.1, the state it must get, a word of its explanation
HOSTILE = {
    "ends the process": ("import os\nos._exit(0)\n", "stopped", "ended its process"),
    "ends the process with an error": ("import os\nos._exit(7)\n", "stopped", "exit status 7"),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)\n", "stopped", "SIGKILL"),
    "kills its parent": ("import os\nos.kill(os.getppid(), 9)\n" + WRONG, "stopped", "process"),
    "kills its group": ("import os\nos.killpg(0, 15)\n", "stopped", "SIGTERM"),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", "stopped", "SIGSEGV"),
    "loops": ("while True:\n    pass\n", "stopped", "did not end"),
    "loops and swallows everything": (
        "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass\n",
        "stopped",
        "did not end",
    ),
    "sleeps": ("import time\ntime.sleep(600)\n", "stopped", "did not end"),
    "prints for ever": ("while True:\n    print('x' * 100_000)\n", "stopped", "did not end"),
    "answers with bytes of its own": (
        "import os\nos.write(3, b'CST1' + b'\\0' * 12)\nos._exit(0)\n",
        "stopped",
        "no answer of a check",
    ),
    "answers with a pickle": (
        "import os, pickle\nos.write(3, pickle.dumps(print))\nos._exit(0)\n",
        "stopped",
        "no answer of a check",
    ),
    "says it has answered": (
        "import json, os, struct\n"
        "head = {'job': 1, 'state': 'answered', 'errors': [], 'kinds': {}, 'texts': {}}\n"
        "text = json.dumps({'head': head, 'arrays': []}).encode()\n"
        "os.write(3, struct.pack('>4sIQ', b'CST1', len(text), 0) + text)\nos._exit(0)\n",
        "wrong",
        "no value",
    ),
    "says nonsense of the right form": (
        "import json, os, struct\n"
        "errors = [7, {'part': 3}, {'bases': 1, 'line': 'x'}]\n"
        "head = {'job': [], 'state': 5, 'errors': errors, 'kinds': [], 'texts': 3}\n"
        "text = json.dumps({'head': head, 'arrays': []}).encode()\n"
        "os.write(3, struct.pack('>4sIQ', b'CST1', len(text), 0) + text)\nos._exit(0)\n",
        "wrong",
        "no value",
    ),
    "leaves by exit()": ("import sys\nsys.exit(0)\n", "wrong", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt\n", "wrong", "KeyboardInterrupt"),
    "recurses": ("return attention_scores(query, key)\n", "wrong", "RecursionError"),
    "asks for input": ("input()\n" + WRONG, "wrong", "EOFError"),
    "takes all memory": ("return torch.ones(2**37)\n", "wrong", ""),
    "writes a huge file": ("open('big', 'wb').truncate(2**40)\n" + WRONG, "wrong", ""),
    "patches the comparisons": (
        "import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True\ntorch.allclose = torch.equal = "
        "lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda *a: True\n" + WRONG,
        "wrong",
        "not scaled",
    ),
    "returns what equals everything": (
        "class Same(torch.Tensor):\n    def __eq__(self, other):\n        return True\n\n"
        "    def __sub__(self, other):\n        return 0\n\n"
        "return (query @ key.transpose(-2, -1)).as_subclass(Same)\n",
        "wrong",
        "not scaled",
    ),
    "returns a thing that is no tensor": (
        "class Fake:\n    def __eq__(self, other):\n        return True\n\n"
        "    def __getattr__(self, name):\n        return self\n\n"
        "    def __call__(self, *a, **k):\n        return self\n\nreturn Fake()\n",
        "wrong",
        "",
    ),
    "returns nothing": ("query @ key.transpose(-2, -1)\n", "wrong", "got NoneType"),
    "patches the recorder": (
        "from cs_transformers.checks.definitions import probe\nprobe.Probe.record = lambda *a: None\n" + WRONG,
        "wrong",
        "no value",
    ),
    "patches the recorder's answer": (
        "from cs_transformers.checks.definitions import probe\nprobe.Probe.answer = lambda self: ({'errors': []}, {})\n"
        + WRONG,
        "wrong",
        "no value",
    ),
    "raises what cannot be shown": (
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n\nraise Odd\n",
        "wrong",
        "Odd",
    ),
    "answers with too much": ("return torch.ones(2**26, dtype=torch.float64)\n", "stopped", ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_never_passed_and_never_ends_the_caller(name: str, bench) -> None:
    body, state, says = HOSTILE[name]
    verdict = bench.verdict("1.1", seconds=1.5, **{"1.1": body})
    assert verdict.state == state
    assert verdict.points == 0
    assert says in str(verdict)
    assert bench.verdict("1.1").passed, "the next answer is judged as if nothing had been"


FRESH = [
    "returns what equals everything",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("ends the process", "crashes", "loops", "says nonsense of the right form")
    ),
]


@pytest.mark.parametrize("name", FRESH)
def test_where_there_is_no_fork_it_is_the_same(name: str, bench) -> None:
    body, state, says = HOSTILE[name]
    worker = Worker(fork=False)
    bench.runner = Runner(worker=worker)
    try:
        verdict = bench.verdict("1.1", seconds=3.0, **{"1.1": body})
        assert verdict.state in (state, "stopped")
        assert verdict.points == 0
        assert says.replace("SIGSEGV", "signal 11") in str(verdict) or verdict.state != state
        assert bench.verdict("1.1").passed
    finally:
        worker.close()


def test_much_output_of_a_right_answer_is_cut_and_costs_nothing(bench) -> None:
    verdict = bench.verdict("1.1", **{"1.1": "print('x' * 30_000_000)\n" + RIGHT})
    assert verdict.passed
    assert 1000 < len(verdict.output) <= 20_000


def test_what_an_answer_prints_is_kept(bench) -> None:
    assert "looking at 6" in bench.verdict("1.1", **{"1.1": "print('looking at', query.shape[-1])\n" + RIGHT}).output


def test_a_process_that_an_answer_leaves_behind_is_ended(bench, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
    )
    assert bench.verdict("1.1", **{"1.1": body + RIGHT}).passed
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{pid}").exists():
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_an_answer_sees_none_of_the_references(bench, tmp_path: Path) -> None:
    note = tmp_path / "seen"
    body = (
        "import pathlib, sys, cs_transformers\nroot = pathlib.Path(cs_transformers.__file__).parent\n"
        f"open({str(note)!r}, 'w').write(' '.join(sorted(p.name for p in (root / 'checks').iterdir())) + '|' + "
        "' '.join(m for m in sys.modules if m.startswith('cs_transformers.checks')))\n"
    )
    assert bench.verdict("1.1", **{"1.1": body + RIGHT}).passed
    files, modules = note.read_text().split("|")
    assert files.split() == ["__init__.py", "definitions"]
    assert all("definitions" in name for name in modules.split() if name != "cs_transformers.checks")


def test_one_run_leaves_nothing_for_the_next(bench) -> None:
    patch = "import torch.nn.functional as f\nf.softmax = None\ntorch.Tensor.softmax = None\nmath.sqrt = None\n"
    assert not bench.verdict("1.1", **{"1.1": patch + "raise ValueError\n"}).passed
    assert bench.verdict("1.1").passed
    assert bench.verdict("1.2").passed
