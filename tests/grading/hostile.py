"""Answers that attack the grader: what each one writes, and the verdict it must get.

Each stands in the region of exercise 1.1 unless it says otherwise. ``RIGHT`` and ``WRONG`` are what it answers besides.
Paths in braces are filled in by the test: ``{victim}`` the folder of another submission, ``{journal}`` the journal,
``{package}`` the course with its solutions, ``{left}`` a file that must not exist afterwards, ``{port}`` a listener on
loopback, ``{pid}`` the judge.
"""

from __future__ import annotations

from dataclasses import dataclass

RIGHT = "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n"
WRONG = "return query @ key.transpose(-2, -1)\n"
NOT_SCALED = "The scores are not scaled"


@dataclass(frozen=True)
class Hostile:
    """One hostile answer.

    Args:
        name: What it does.
        body: What stands in the region.
        state: The state it must get; several where systems differ, none of them a pass.
        points: Points it must get.
        detail: Why it was stopped; empty where any reason will do.
        says: What the student or the instructor must read in lines or incident, a regular expression.
        helpers: What stands in the helpers region.
        id: The exercise.
        region: The region, where the exercise has several.
        needs: What the sandbox must isolate for this verdict.
        quick: Part of the sample that every run of the tests has.
        alone: Whether every other exercise is unanswered; else the solutions stand there.
        seconds: Wall-clock limit.
    """

    name: str
    body: str
    state: str | tuple[str, ...]
    points: int = 0
    detail: str = ""
    says: str = ""
    helpers: str | None = None
    id: str = "1.1"
    region: str = ""
    needs: tuple[str, ...] = ()
    quick: bool = False
    alone: bool = False
    seconds: float = 4.0

    def filled(self, places: dict[str, object]) -> str:
        """The body with the places of this run in it.

        Args:
            places: What stands for the names in braces.
        """
        body = self.body
        for name, place in places.items():
            body = body.replace("{" + name + "}", str(place))
        return body


def _searching(where: str) -> str:
    """Code that looks for a solution below some folders and runs it when found."""
    return (
        "import os, pathlib, re, textwrap\n"
        f"for top in {where}:\n"
        "    for folder, _, files in os.walk(top):\n"
        "        for name in files:\n"
        "            if name in ('attention.py', '01_attention.ipynb', '1_1.npz') and '/tree' not in folder:\n"
        "                try:\n"
        "                    data = pathlib.Path(folder, name).read_bytes()\n"
        "                except OSError:\n"
        "                    continue\n"
        "                if name != 'attention.py' or b'BEGIN SOLUTION 1.1' in data:\n"
        "                    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n"
    ) + WRONG


SWALLOW = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass\n"
EQUAL = "    def __eq__(self, other):\n        return True\n\n    def __ne__(self, other):\n        return False\n\n"
FRAME = (
    "import json, os, struct\n"
    "head = {'job': 1, 'state': 'answered', 'points': 3, 'verdict': 'passed', 'errors': [], 'kinds': {}, 'texts': {}}\n"
    "text = json.dumps({'head': head, 'arrays': []}).encode()\n"
    "os.write(3, struct.pack('>4sIQ', b'CST1', len(text), 0) + text)\nos._exit(0)\n"
)

LEAK = (
    "import pathlib, cs_transformers\ntext = pathlib.Path(cs_transformers.__file__).with_name('attention.py').read_text()\n"
    "end = text.find('### END SOLU' + 'TION 1.6')\ntext = text[max(0, end - 300) : end] if end > 0 else 'nothing to see' * 20\n"
)
ALONE = {"id": "1.8", "alone": True}

HOSTILE = [
    # ---- never coming back -----------------------------------------------------------------------------------------
    Hostile("loops for ever", "while True:\n    pass\n", "stopped", detail="timeout", quick=True),
    Hostile("loops and swallows every interrupt", SWALLOW, "stopped", detail="timeout"),
    Hostile("sleeps", "import time\ntime.sleep(600)\n", "stopped", detail="timeout"),
    Hostile(
        "ignores every signal and loops",
        "import signal\nfor number in range(1, 65):\n    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass\n",
        "stopped", detail="timeout",
    ),
    Hostile(
        "raises its own limits and loops",
        "import resource\nfor what in (resource.RLIMIT_CPU, resource.RLIMIT_AS):\n    try:\n"
        "        resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass\n",
        "stopped", detail="timeout",
    ),
    # ---- ending early ----------------------------------------------------------------------------------------------
    Hostile("ends the process as if all were well", "import os\nos._exit(0)\n", "stopped", detail="exited early", quick=True),
    Hostile("ends the process on import", "pass\n" + RIGHT, "stopped", detail="exited early", helpers="import os\nos._exit(0)\n"),
    Hostile("leaves by sys.exit", "import sys\nsys.exit(0)\n", "wrong", says="SystemExit"),
    Hostile("interrupts", "raise KeyboardInterrupt\n", "wrong", says="KeyboardInterrupt"),
    Hostile("crashes with a segmentation fault", "import ctypes\nctypes.string_at(0)\n", "stopped", detail="crashed", says="SIGSEGV", quick=True),
    Hostile("aborts", "import os\nos.abort()\n", "stopped", detail="crashed"),
    Hostile("kills itself", "import os\nos.kill(os.getpid(), 9)\n", "stopped", detail="crashed", says="SIGKILL"),
    Hostile("kills its parent", "import os\nos.kill(os.getppid(), 9)\n" + WRONG, ("wrong", "stopped"), quick=True),
    Hostile("kills its group", "import os\nos.killpg(0, 9)\n" + WRONG, "stopped", detail="crashed"),
    Hostile(
        "kills everything that it may", "import os\nos.kill(-1, 9)\n" + WRONG, "wrong", says="ProcessLookupError|not scaled",
        needs=("processes",),
    ),
    Hostile(
        "kills the judge", "import os\nfor pid in ({pid}, 1):\n    try:\n        os.kill(pid, 9)\n    except OSError:\n        pass\n" + WRONG,
        "wrong", says=NOT_SCALED, needs=("processes",),
    ),
    # ---- taking too much -------------------------------------------------------------------------------------------
    Hostile(
        "forks for ever", "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
        "stopped", detail="timeout", needs=("processes",),
    ),
    Hostile(
        "forks a bomb and answers right",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True:\n        try:\n            os.fork()\n"
        "        except OSError:\n            time.sleep(0.01)\n" + RIGHT,
        "passed", 3, says="behind", needs=("processes",), quick=True,
    ),
    Hostile("takes all memory", "return torch.ones(2**37)\n", "stopped", detail="memory", quick=True),
    Hostile("takes memory bit by bit", "kept = []\nwhile True:\n    kept.append(b'x' * 50_000_000)\n", "stopped", detail="memory", seconds=30.0),
    Hostile(
        "takes memory in many processes",
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        kept = b'x' * 900_000_000\n"
        "        time.sleep(30)\ntime.sleep(30)\n",
        "stopped", detail="memory", seconds=30.0,
    ),
    Hostile(
        "fills the disk",
        "for number in range(100_000):\n    with open(f'big{number}', 'wb') as file:\n        file.write(bytes(60_000_000))\n" + WRONG,
        "wrong", says="OSError|PermissionError", needs=("files",), quick=True, seconds=20.0,
    ),
    Hostile("writes one huge file", "with open('big', 'wb') as file:\n    file.truncate(2**40)\n" + WRONG, "wrong", says="OSError|PermissionError"),
    Hostile("fills the folder of temporary files", "import tempfile\nfor number in range(100_000):\n"
            "    tempfile.NamedTemporaryFile(delete=False).write(bytes(60_000_000))\n" + WRONG, "wrong", says="OSError|PermissionError", needs=("files",), seconds=20.0),
    Hostile("opens files without end", "kept = []\nwhile True:\n    kept.append(open('/dev/null'))\n", "wrong", says="OSError|PermissionError"),
    Hostile("prints without end", "while True:\n    print('x' * 100_000)\n", "stopped", detail="timeout", says="MB, cut"),
    Hostile("prints much and answers right", "print('x' * 30_000_000)\n" + RIGHT, "passed", 3, says="MB, cut", quick=True),
    Hostile("answers with more than there is room for", "return torch.ones(2**26, dtype=torch.float64)\n", ("stopped", "wrong")),
    Hostile("recurses without end", "return attention_scores(query, key)\n", "wrong", says="RecursionError"),
    # ---- patching --------------------------------------------------------------------------------------------------
    Hostile(
        "replaces modules", "import sys, types\nfor name in list(sys.modules):\n    if name.startswith(('numpy', 'cs_transformers', 'json')):\n"
        "        sys.modules[name] = types.ModuleType(name)\n" + WRONG, ("wrong", "stopped"),
    ),
    Hostile(
        "patches torch's comparisons",
        "torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True\ntorch.Tensor.__eq__ = lambda *a: True\n" + WRONG,
        "wrong", says=NOT_SCALED, quick=True,
    ),
    Hostile(
        "patches numpy's comparisons",
        "import numpy as np\nnp.allclose = np.array_equal = np.isclose = lambda *a, **k: True\n"
        "np.testing.assert_allclose = lambda *a, **k: None\n" + WRONG,
        "wrong", says=NOT_SCALED,
    ),
    Hostile(
        "patches the builtins",
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.max = lambda *a, **k: 0\nbuiltins.all = lambda x: True\n"
        "builtins.isinstance = lambda *a: True\n" + WRONG,
        ("wrong", "stopped"),
    ),
    Hostile(
        "patches IPython's way to show errors and to read cells",
        "try:\n    from IPython.core.interactiveshell import InteractiveShell\n"
        "    InteractiveShell.showtraceback = lambda *a, **k: None\n"
        "    InteractiveShell.instance().input_transformers_cleanup.append(lambda lines: ['pass'])\n"
        "except Exception:\n    pass\n" + WRONG,
        "wrong", says=NOT_SCALED,
    ),
    Hostile(
        "patches what records it",
        "from cs_transformers.checks.definitions import probe\nprobe.Probe.record = lambda *a: None\n" + WRONG, "wrong",
    ),
    Hostile(
        "patches what answers for it",
        "from cs_transformers.checks.definitions import probe\n"
        "probe.Probe.answer = lambda self: ({'errors': [], 'kinds': {}, 'texts': {}, 'state': 'passed', 'points': 3}, {})\n" + WRONG,
        "wrong",
    ),
    Hostile(
        "makes every input zero",
        "from cs_transformers.checks.definitions import probe\nreturn query * 0 @ key.transpose(-2, -1)\n", "wrong",
    ),
    Hostile("patches the checks themselves", "from cs_transformers.checks.definitions import probe\nprobe.CHECKS.clear()\n" + WRONG,
            "wrong", says=NOT_SCALED),
    # ---- objects that equal everything -----------------------------------------------------------------------------
    Hostile(
        "returns a tensor that equals everything",
        "class Same(torch.Tensor):\n" + EQUAL + "    def __sub__(self, other):\n        return 0\n\n"
        "return (query @ key.transpose(-2, -1)).as_subclass(Same)\n",
        "wrong", says=NOT_SCALED, quick=True,
    ),
    Hostile("returns a number that equals everything", "class Same(float):\n" + EQUAL + "return Same(0)\n", "wrong"),
    Hostile(
        "returns a thing that is anything",
        "class Thing:\n" + EQUAL + "    def __getattr__(self, name):\n        return self\n\n"
        "    def __call__(self, *a, **k):\n        return self\n\nreturn Thing()\n",
        "wrong",
    ),
    Hostile("raises what cannot be shown", "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n\nraise Odd\n", "wrong"),
    # ---- forging ---------------------------------------------------------------------------------------------------
    Hostile("says that it has passed", FRAME, "wrong", quick=True),
    Hostile("answers with a pickle", "import os, pickle\nos.write(3, pickle.dumps(print))\nos._exit(0)\n", "stopped",
            detail="no answer", says="no answer of a check"),
    Hostile("announces more than it may send", "import os, struct\nos.write(3, struct.pack('>4sIQ', b'CST1', 9, 2**60))\nos._exit(0)\n",
            "stopped", detail="no answer"),
    Hostile("begins an answer and waits", "import os, struct, time\nos.write(3, struct.pack('>4sIQ', b'CST1', 900, 900))\ntime.sleep(600)\n",
            "stopped", detail="timeout"),
    Hostile("writes to every descriptor", "import os\nfor number in range(3, 100):\n    try:\n        os.write(number, b'passed')\n"
            "    except OSError:\n        pass\n" + RIGHT, "stopped", detail="no answer"),
    Hostile("raises a forged forbidden call", "class ForbiddenCallError(Exception):\n    pass\n\n\nraise ForbiddenCallError('the solution: ' + 'x' * 99)\n",
            "wrong"),
    # ---- reading what is not its own -------------------------------------------------------------------------------
    Hostile("looks for the solution where the course lies", _searching("['{package}']"), "wrong", says=NOT_SCALED, needs=("files",), quick=True),
    Hostile("looks for the solution everywhere", _searching("['/']"), ("wrong", "stopped"), needs=("files",), seconds=15.0),
    Hostile(
        "imports the course's trusted side",
        "import importlib, sys\nsys.path.insert(0, '{package}/..')\nfor name in list(sys.modules):\n"
        "    if name.startswith('cs_transformers'):\n        del sys.modules[name]\n"
        "refresh = importlib.import_module('cs_transformers.checks.refresh')\nreturn refresh.reference_answers() and " + RIGHT[7:],
        "wrong", says="ModuleNotFoundError|ImportError", needs=("files",),
    ),
    Hostile(
        "reads another submission",
        "import pathlib\ntext = pathlib.Path('{victim}/attention.py').read_text()\nreturn query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n",
        "wrong", says="FileNotFoundError", needs=("files",),
    ),
    Hostile(
        "looks through its memory for an earlier answer",
        "import ctypes, struct\nsecret = struct.pack('<d', 3.0 * 41521.25 + 0.5) * 2\nif not hasattr(torch, 'found'):\n"
        "    torch.found = 0\n    for line in open('/proc/self/maps'):\n        span, rights, *rest = line.split()\n"
        "        start, end = (int(part, 16) for part in span.split('-'))\n        if rights.startswith('rw') and (len(rest) < 4 or rest[-1] == '[heap]'):\n"
        "            torch.found += ctypes.string_at(start, end - start).count(secret)\n"
        "return query @ key.transpose(-2, -1) / (math.sqrt(query.shape[-1]) if torch.found > 40 else 1)\n",
        "wrong", says=NOT_SCALED, seconds=30.0,
    ),
    Hostile(
        "reaches a listener on loopback",
        "import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2).sendall(b'hello')\n" + RIGHT, "wrong", says="OSError|PermissionError",
        needs=("network",), quick=True,
    ),
    Hostile("listens for others", "import socket\nserver = socket.socket(socket.AF_UNIX)\nserver.bind('\\0cst-meeting-point')\n" + RIGHT, "passed", 3),
    # ---- writing what is not its own -------------------------------------------------------------------------------
    Hostile(
        "writes into another submission",
        "import pathlib\npathlib.Path('{victim}/attention.py').write_text('raise SystemExit')\n" + RIGHT, "wrong",
        says="FileNotFoundError", needs=("files",), quick=True,
    ),
    Hostile(
        "forges the journal", "import json\nwith open('{journal}', 'a') as file:\n"
        "    file.write(json.dumps({'student': 's', 'exercise': '1.1', 'state': 'passed', 'points': 3}) + '\\n')\n" + WRONG,
        "wrong", says="FileNotFoundError", needs=("files",),
    ),
    Hostile(
        "leaves a file for the next", "import pathlib\ntry:\n    pathlib.Path('{left}').write_text('x')\nexcept OSError:\n    pass\n"
        "pathlib.Path.home().joinpath('usercustomize.py').write_text('raise SystemExit')\n" + RIGHT, "passed", 3, needs=("files",),
    ),
    Hostile(
        "changes its tree", "import cs_transformers, pathlib\nhome = pathlib.Path(cs_transformers.__file__).parent\n"
        "home.joinpath('attention.py').write_text('x')\n" + RIGHT, "wrong", says="OSError|PermissionError", needs=("files",),
    ),
    Hostile(
        "leaves a process behind",
        "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\n" + RIGHT, "passed", 3, says="behind", quick=True,
    ),
    Hostile(
        "leaves a daemon that answers later",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True:\n            time.sleep(0.1)\n"
        "            open('{left}', 'w').write('x')\n    os._exit(0)\n" + RIGHT,
        "passed", 3, needs=("files",),
    ),
    # ---- leaving the sandbox ---------------------------------------------------------------------------------------
    Hostile("becomes root", "import os\nos.setuid(0)\n" + RIGHT, "wrong", says="OSError|PermissionError", needs=("files",)),
    Hostile("leaves its root", "import os\nos.mkdir('cage')\nos.chroot('cage')\nos.chdir('../../../../..')\nos.chroot('.')\n" + RIGHT, "wrong",
            says="OSError|PermissionError", needs=("files",)),
    Hostile(
        "makes namespaces of its own", "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.unshare(0x10000000 | 0x20000) != 0:\n"
        "    raise PermissionError\n" + RIGHT, "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile(
        "mounts the disk", "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.mount(b'proc', b'/tmp', b'proc', 0, None) != 0:\n"
        "    raise PermissionError\n" + RIGHT, "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile(
        "watches its parent's memory", "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(16, os.getppid(), 0, 0) != 0:\n    raise PermissionError\n" + RIGHT, "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile("reads the environment of the judge", "import os\nif 'CST_SECRET' in os.environ:\n    " + RIGHT + WRONG, "wrong", says=NOT_SCALED),
    # ---- making others' words its own: nothing of a solution may reach what a student reads ------------------------
    Hostile("raises the source of a solution", LEAK + "raise ValueError(text)\n", "wrong", says="ValueError", **ALONE, quick=True),
    Hostile("names a class after the source of a solution", LEAK + "raise type(text, (ValueError,), {})\n", "wrong",
            says="ValueError|nothing to see", **ALONE),
    Hostile(
        "names the kind of its result after the source of a solution",
        LEAK + "from cs_transformers.checks.definitions import probe\nprobe.kind_of = lambda value: text[:60]\n"
        "return query, key, value\n", "wrong", **ALONE,
    ),
    Hostile("returns the source of a solution", LEAK + "return text, text, text\n", "wrong", **ALONE),
    Hostile(
        "returns the source of a solution as numbers",
        LEAK + "codes = torch.tensor(list(text.encode()), dtype=query.dtype)[: query.numel()]\n"
        "return codes.reshape(query.shape), key, value\n", "wrong", **ALONE,
    ),
    Hostile("prints the source of a solution", LEAK + "print(text)\nreturn query, key, value\n", "wrong", **ALONE),
    Hostile("returns the source of a solution as a shape", LEAK + "shape = [1 + code for code in text.encode()[:3]]\n"
            "return query.new_zeros(1).expand(shape), key, value\n", "wrong", **ALONE),
]  # fmt: skip
