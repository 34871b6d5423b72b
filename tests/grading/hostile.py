"""Answers that attack the grader: what each one writes, and the verdict it must get.

Each stands in the region of exercise 1.1 unless it says otherwise. ``{right}`` and ``{wrong}`` are answers beside it.
Paths in braces are filled in by the test: ``{victim}`` the folder of another submission, ``{journal}`` the journal,
``{package}`` the course with its solutions, ``{left}`` a file that must not exist afterwards, ``{port}`` a listener on
loopback, ``{pid}`` the judge.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

RIGHT = "return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])\n"
WRONG = "return query @ key.transpose(-2, -1)\n"
LEAK = """\
import pathlib, cs_transformers
text = pathlib.Path(cs_transformers.__file__).with_name("attention.py").read_text()
end = text.find("### END SOLU" + "TION 1.6")
text = text[max(0, end - 300) : end] if end > 0 else "nothing to see" * 20
"""


@dataclass(frozen=True)
class Hostile:
    """One hostile answer.

    Args:
        name: What it does.
        code: What stands in the region; ``{right}``, ``{wrong}`` and ``{leak}`` are lines that several use.
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
    code: str
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

    def filled(self, places: dict[str, object] | None = None) -> str:
        """The body with the places of this run in it.

        Args:
            places: What stands for the names in braces.
        """
        body = textwrap.dedent(self.code).lstrip("\n")
        for name, place in {"right": RIGHT, "wrong": WRONG, "leak": LEAK, **(places or {})}.items():
            body = body.replace("{" + name + "}", str(place).rstrip("\n"))
        return body


HOSTILE = [
    # ---- never coming back ------------------------------------------------------------------------------------------
    Hostile(
        "loops for ever",
        """
        while True:
            pass
        """,
        "stopped", detail="timeout", quick=True,
    ),
    Hostile(
        "loops and swallows every interrupt",
        """
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
        """,
        "stopped", detail="timeout",
    ),
    Hostile(
        "sleeps",
        """
        import time
        time.sleep(600)
        """,
        "stopped", detail="timeout",
    ),
    Hostile(
        "ignores every signal and loops",
        """
        import signal
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            pass
        """,
        "stopped", detail="timeout",
    ),
    Hostile(
        "raises its own limits and loops",
        """
        import resource
        for what in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
            try:
                resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (OSError, ValueError):
                pass
        while True:
            pass
        """,
        "stopped", detail="timeout",
    ),
    # ---- ending early -----------------------------------------------------------------------------------------------
    Hostile(
        "ends the process as if all were well",
        """
        import os
        os._exit(0)
        """,
        "stopped", detail="exited early", quick=True,
    ),
    Hostile(
        "ends the process on import",
        """
        pass
        {right}
        """,
        "stopped", detail="exited early", helpers="import os\nos._exit(0)\n",
    ),
    Hostile(
        "leaves by sys.exit",
        """
        import sys
        sys.exit(0)
        """,
        "wrong", says="SystemExit",
    ),
    Hostile(
        "interrupts",
        """
        raise KeyboardInterrupt
        """,
        "wrong", says="KeyboardInterrupt",
    ),
    Hostile(
        "crashes with a segmentation fault",
        """
        import ctypes
        ctypes.string_at(0)
        """,
        "stopped", detail="crashed", says="SIGSEGV", quick=True,
    ),
    Hostile(
        "aborts",
        """
        import os
        os.abort()
        """,
        "stopped", detail="crashed",
    ),
    Hostile(
        "kills itself",
        """
        import os
        os.kill(os.getpid(), 9)
        """,
        "stopped", detail="crashed", says="SIGKILL",
    ),
    Hostile(
        "kills its parent",
        """
        import os
        os.kill(os.getppid(), 9)
        {wrong}
        """,
        ("wrong", "stopped"), quick=True,
    ),
    Hostile(
        "kills its group",
        """
        import os
        os.killpg(0, 9)
        {wrong}
        """,
        "stopped", detail="crashed",
    ),
    Hostile(
        "kills everything that it may",
        """
        import os
        os.kill(-1, 9)
        {wrong}
        """,
        "wrong", says="ProcessLookupError|not scaled", needs=("processes",),
    ),
    Hostile(
        "kills the judge",
        """
        import os
        for pid in ({pid}, 1):
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        {wrong}
        """,
        "wrong", says="The scores are not scaled", needs=("processes",),
    ),
    # ---- taking too much --------------------------------------------------------------------------------------------
    Hostile(
        "forks for ever",
        """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
        "stopped", detail="timeout", needs=("processes",),
    ),
    Hostile(
        "forks a bomb and answers right",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.01)
        {right}
        """,
        "passed", points=3, says="behind", needs=("processes",), quick=True,
    ),
    Hostile(
        "takes all memory",
        """
        return torch.ones(2**37)
        """,
        "stopped", detail="memory", quick=True,
    ),
    Hostile(
        "takes memory bit by bit",
        """
        kept = []
        while True:
            kept.append(b'x' * 50_000_000)
        """,
        "stopped", detail="memory", seconds=30.0,
    ),
    Hostile(
        "takes memory in many processes",
        """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                kept = b'x' * 900_000_000
                time.sleep(30)
        time.sleep(30)
        """,
        "stopped", detail="memory", seconds=30.0,
    ),
    Hostile(
        "fills the disk",
        """
        for number in range(100_000):
            with open(f'big{number}', 'wb') as file:
                file.write(bytes(60_000_000))
        {wrong}
        """,
        "wrong", says="OSError|PermissionError", needs=("files",), quick=True, seconds=20.0,
    ),
    Hostile(
        "writes one huge file",
        """
        with open('big', 'wb') as file:
            file.truncate(2**40)
        {wrong}
        """,
        "wrong", says="OSError|PermissionError",
    ),
    Hostile(
        "fills the folder of temporary files",
        """
        import tempfile
        for number in range(100_000):
            tempfile.NamedTemporaryFile(delete=False).write(bytes(60_000_000))
        {wrong}
        """,
        "wrong", says="OSError|PermissionError", needs=("files",), seconds=20.0,
    ),
    Hostile(
        "opens files without end",
        """
        kept = []
        while True:
            kept.append(open('/dev/null'))
        """,
        "wrong", says="OSError|PermissionError",
    ),
    Hostile(
        "prints without end",
        """
        while True:
            print('x' * 100_000)
        """,
        "stopped", detail="timeout", says="MB, cut",
    ),
    Hostile(
        "prints much and answers right",
        """
        print('x' * 3_000_000)
        {right}
        """,
        "passed", points=3, says="MB, cut", quick=True, seconds=20.0,
    ),
    Hostile(
        "answers with more than there is room for",
        """
        return torch.ones(2**26, dtype=torch.float64)
        """,
        ("stopped", "wrong"),
    ),
    Hostile(
        "recurses without end",
        """
        return attention_scores(query, key)
        """,
        "wrong", says="RecursionError",
    ),
    # ---- patching ---------------------------------------------------------------------------------------------------
    Hostile(
        "replaces modules",
        """
        import sys, types
        for name in list(sys.modules):
            if name.startswith(('numpy', 'cs_transformers', 'json')):
                sys.modules[name] = types.ModuleType(name)
        {wrong}
        """,
        ("wrong", "stopped"),
    ),
    Hostile(
        "patches torch's comparisons",
        """
        torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
        torch.Tensor.__eq__ = lambda *a: True
        {wrong}
        """,
        "wrong", says="The scores are not scaled", quick=True,
    ),
    Hostile(
        "patches numpy's comparisons",
        """
        import numpy as np
        np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
        np.testing.assert_allclose = lambda *a, **k: None
        {wrong}
        """,
        "wrong", says="The scores are not scaled",
    ),
    Hostile(
        "patches the builtins",
        """
        import builtins
        builtins.abs = lambda x: 0
        builtins.max = lambda *a, **k: 0
        builtins.all = lambda x: True
        builtins.isinstance = lambda *a: True
        {wrong}
        """,
        ("wrong", "stopped"),
    ),
    Hostile(
        "patches IPython's way to show errors and to read cells",
        """
        try:
            from IPython.core.interactiveshell import InteractiveShell
            InteractiveShell.showtraceback = lambda *a, **k: None
            InteractiveShell.instance().input_transformers_cleanup.append(lambda lines: ['pass'])
        except Exception:
            pass
        {wrong}
        """,
        "wrong", says="The scores are not scaled",
    ),
    Hostile(
        "patches what records it",
        """
        from cs_transformers.checks.definitions import probe
        probe.Probe.record = lambda *a: None
        {wrong}
        """,
        "wrong",
    ),
    Hostile(
        "patches what answers for it",
        """
        from cs_transformers.checks.definitions import probe
        probe.Probe.answer = lambda self: ({'errors': [], 'kinds': {}, 'texts': {}, 'state': 'passed', 'points': 3}, {})
        {wrong}
        """,
        "wrong",
    ),
    Hostile(
        "makes every input zero",
        """
        from cs_transformers.checks.definitions import probe
        return query * 0 @ key.transpose(-2, -1)
        """,
        "wrong",
    ),
    Hostile(
        "patches the checks themselves",
        """
        from cs_transformers.checks.definitions import probe
        probe.CHECKS.clear()
        {wrong}
        """,
        "wrong", says="The scores are not scaled",
    ),
    # ---- objects that equal everything ------------------------------------------------------------------------------
    Hostile(
        "returns a tensor that equals everything",
        """
        class Same(torch.Tensor):
            def __eq__(self, other):
                return True

            def __ne__(self, other):
                return False

            def __sub__(self, other):
                return 0

        return (query @ key.transpose(-2, -1)).as_subclass(Same)
        """,
        "wrong", says="The scores are not scaled", quick=True,
    ),
    Hostile(
        "returns a number that equals everything",
        """
        class Same(float):
            def __eq__(self, other):
                return True

            def __ne__(self, other):
                return False

        return Same(0)
        """,
        "wrong",
    ),
    Hostile(
        "returns a thing that is anything",
        """
        class Thing:
            def __eq__(self, other):
                return True

            def __ne__(self, other):
                return False

            def __getattr__(self, name):
                return self

            def __call__(self, *a, **k):
                return self

        return Thing()
        """,
        "wrong",
    ),
    Hostile(
        "raises what cannot be shown",
        """
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError

        raise Odd
        """,
        "wrong",
    ),
    # ---- forging ----------------------------------------------------------------------------------------------------
    Hostile(
        "says that it has passed",
        """
        import json, os, struct
        head = {'job': 1, 'state': 'answered', 'points': 3, 'verdict': 'passed', 'errors': [], 'kinds': {}, 'texts': {}}
        text = json.dumps({'head': head, 'arrays': []}).encode()
        os.write(3, struct.pack('>4sIQ', b'CST1', len(text), 0) + text)
        os._exit(0)
        """,
        "wrong", quick=True,
    ),
    Hostile(
        "answers with a pickle",
        """
        import os, pickle
        os.write(3, pickle.dumps(print))
        os._exit(0)
        """,
        "stopped", detail="no answer", says="no answer of a check",
    ),
    Hostile(
        "announces more than it may send",
        """
        import os, struct
        os.write(3, struct.pack('>4sIQ', b'CST1', 9, 2**60))
        os._exit(0)
        """,
        "stopped", detail="no answer",
    ),
    Hostile(
        "begins an answer and waits",
        """
        import os, struct, time
        os.write(3, struct.pack('>4sIQ', b'CST1', 900, 900))
        time.sleep(600)
        """,
        "stopped", detail="timeout",
    ),
    Hostile(
        "writes to every descriptor",
        """
        import os
        for number in range(3, 100):
            try:
                os.write(number, b'passed')
            except OSError:
                pass
        {right}
        """,
        "stopped", detail="no answer",
    ),
    Hostile(
        "raises a forged forbidden call",
        """
        class ForbiddenCallError(Exception):
            pass


        raise ForbiddenCallError('the solution: ' + 'x' * 99)
        """,
        "wrong",
    ),
    # ---- reading what is not its own --------------------------------------------------------------------------------
    Hostile(
        "looks for the solution where the course lies",
        """
        import os, pathlib, re, textwrap
        for top in ['{package}']:
            for folder, _, files in os.walk(top):
                for name in files:
                    if name in ('attention.py', '01_attention.ipynb', '1_1.npz') and '/tree' not in folder:
                        try:
                            data = pathlib.Path(folder, name).read_bytes()
                        except OSError:
                            continue
                        if name != 'attention.py' or b'BEGIN SOLUTION 1.1' in data:
                            {right}
        {wrong}
        """,
        "wrong", says="The scores are not scaled", needs=("files",), quick=True,
    ),
    Hostile(
        "looks for the solution everywhere",
        """
        import os, pathlib, re, textwrap
        for top in ['/']:
            for folder, _, files in os.walk(top):
                for name in files:
                    if name in ('attention.py', '01_attention.ipynb', '1_1.npz') and '/tree' not in folder:
                        try:
                            data = pathlib.Path(folder, name).read_bytes()
                        except OSError:
                            continue
                        if name != 'attention.py' or b'BEGIN SOLUTION 1.1' in data:
                            {right}
        {wrong}
        """,
        ("wrong", "stopped"), needs=("files",), seconds=15.0,
    ),
    Hostile(
        "imports the course's trusted side",
        """
        import importlib, sys
        sys.path.insert(0, '{package}/..')
        for name in list(sys.modules):
            if name.startswith('cs_transformers'):
                del sys.modules[name]
        refresh = importlib.import_module('cs_transformers.checks.refresh')
        return refresh.reference_answers() and query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        """,
        "wrong", says="ModuleNotFoundError|ImportError", needs=("files",),
    ),
    Hostile(
        "reads another submission",
        """
        import pathlib
        text = pathlib.Path('{victim}/attention.py').read_text()
        {right}
        """,
        "wrong", says="FileNotFoundError", needs=("files",),
    ),
    Hostile(
        "looks through its memory for an earlier answer",
        """
        import ctypes, struct
        secret = struct.pack('<d', 3.0 * 41521.25 + 0.5) * 2
        if not hasattr(torch, 'found'):
            torch.found = 0
            for line in open('/proc/self/maps'):
                span, rights, *rest = line.split()
                start, end = (int(part, 16) for part in span.split('-'))
                if rights.startswith('rw') and (len(rest) < 4 or rest[-1] == '[heap]'):
                    torch.found += ctypes.string_at(start, end - start).count(secret)
        return query @ key.transpose(-2, -1) / (math.sqrt(query.shape[-1]) if torch.found > 40 else 1)
        """,
        "wrong", says="The scores are not scaled", seconds=30.0,
    ),
    Hostile(
        "reaches a listener on loopback",
        """
        import socket
        socket.create_connection(('127.0.0.1', {port}), timeout=2).sendall(b'hello')
        {right}
        """,
        "wrong", says="OSError|PermissionError", needs=("network",), quick=True,
    ),
    Hostile(
        "listens for others",
        """
        import socket
        server = socket.socket(socket.AF_UNIX)
        server.bind('\\0cst-meeting-point')
        {right}
        """,
        "passed", points=3,
    ),
    # ---- writing what is not its own --------------------------------------------------------------------------------
    Hostile(
        "writes into another submission",
        """
        import pathlib
        pathlib.Path('{victim}/attention.py').write_text('raise SystemExit')
        {right}
        """,
        "wrong", says="FileNotFoundError", needs=("files",), quick=True,
    ),
    Hostile(
        "forges the journal",
        """
        import json
        with open('{journal}', 'a') as file:
            file.write(json.dumps({'student': 's', 'exercise': '1.1', 'state': 'passed', 'points': 3}) + '\\n')
        {wrong}
        """,
        "wrong", says="FileNotFoundError", needs=("files",),
    ),
    Hostile(
        "leaves a file for the next",
        """
        import pathlib
        try:
            pathlib.Path('{left}').write_text('x')
        except OSError:
            pass
        pathlib.Path.home().joinpath('usercustomize.py').write_text('raise SystemExit')
        {right}
        """,
        "passed", points=3, needs=("files",),
    ),
    Hostile(
        "changes its tree",
        """
        import cs_transformers, pathlib
        home = pathlib.Path(cs_transformers.__file__).parent
        home.joinpath('attention.py').write_text('x')
        {right}
        """,
        "wrong", says="OSError|PermissionError", needs=("files",),
    ),
    Hostile(
        "leaves a process behind",
        """
        import subprocess
        subprocess.Popen(['sleep', '300'], start_new_session=True)
        {right}
        """,
        "passed", points=3, says="behind", quick=True,
    ),
    Hostile(
        "leaves a daemon that answers later",
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(0.1)
                    open('{left}', 'w').write('x')
            os._exit(0)
        {right}
        """,
        "passed", points=3, needs=("files",),
    ),
    # ---- leaving the sandbox ----------------------------------------------------------------------------------------
    Hostile(
        "becomes root",
        """
        import os
        os.setuid(0)
        {right}
        """,
        "wrong", says="OSError|PermissionError", needs=("files",),
    ),
    Hostile(
        "leaves its root",
        """
        import os
        os.mkdir('cage')
        os.chroot('cage')
        os.chdir('../../../../..')
        os.chroot('.')
        {right}
        """,
        "wrong", says="OSError|PermissionError", needs=("files",),
    ),
    Hostile(
        "makes namespaces of its own",
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x10000000 | 0x20000) != 0:
            raise PermissionError
        {right}
        """,
        "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile(
        "mounts the disk",
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b'proc', b'/tmp', b'proc', 0, None) != 0:
            raise PermissionError
        {right}
        """,
        "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile(
        "watches its parent's memory",
        """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, os.getppid(), 0, 0) != 0:
            raise PermissionError
        {right}
        """,
        "wrong", says="PermissionError", needs=("files",),
    ),
    Hostile(
        "reads the environment of the judge",
        """
        import os
        if 'CST_SECRET' in os.environ:
            {right}
        {wrong}
        """,
        "wrong", says="The scores are not scaled",
    ),
    # ---- making others' words its own: nothing of a solution may reach what a student reads -------------------------
    Hostile(
        "raises the source of a solution",
        """
        {leak}
        raise ValueError(text)
        """,
        "wrong", says="ValueError", id="1.8", quick=True, alone=True,
    ),
    Hostile(
        "names a class after the source of a solution",
        """
        {leak}
        raise type(text, (ValueError,), {})
        """,
        "wrong", says="ValueError|nothing to see", id="1.8", alone=True,
    ),
    Hostile(
        "names the kind of its result after the source of a solution",
        """
        {leak}
        from cs_transformers.checks.definitions import probe
        probe.kind_of = lambda value: text[:60]
        return query, key, value
        """,
        "wrong", id="1.8", alone=True,
    ),
    Hostile(
        "returns the source of a solution",
        """
        {leak}
        return text, text, text
        """,
        "wrong", id="1.8", alone=True,
    ),
    Hostile(
        "returns the source of a solution as numbers",
        """
        {leak}
        codes = torch.tensor(list(text.encode()), dtype=query.dtype)[: query.numel()]
        return codes.reshape(query.shape), key, value
        """,
        "wrong", id="1.8", alone=True,
    ),
    Hostile(
        "prints the source of a solution",
        """
        {leak}
        print(text)
        return query, key, value
        """,
        "wrong", id="1.8", alone=True,
    ),
    Hostile(
        "returns the source of a solution as a shape",
        """
        {leak}
        shape = [1 + code for code in text.encode()[:3]]
        return query.new_zeros(1).expand(shape), key, value
        """,
        "wrong", id="1.8", alone=True,
    ),
]  # fmt: skip
