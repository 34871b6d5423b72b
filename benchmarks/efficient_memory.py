"""Memory of attention over 8,192 tokens, forward and backward: blocks against the explicit form, each in a process."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.records import Record, SkippedError, record
from cs_transformers.efficient_methods import head_attention

TOKENS, HEADS, WIDTH, CHUNK = 8192, 2, 64, 128
STATUS, MARKS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
OPTIONS = {"explicit": {}, "chunked": {"chunk_size": CHUNK}, "linear": {}, "sliding window": {"window": 64}}


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Start one process for each method and ask it for its peak of resident memory above what it held before.

    Args:
        quick: Fewer tokens, to show that it works.
        seeds: Seeds of the inputs, one process per method each.

    Returns:
        Extra memory of each method, and that of the blocks as a share of the explicit form's.
    """
    if not STATUS.is_file():
        raise SkippedError("needs /proc/self/status, which Linux has")
    tokens, names = (512, ("explicit", "chunked")) if quick else (TOKENS, tuple(OPTIONS))
    extra = {name: [_in_a_process(name, tokens, seed) for seed in seeds] for name in names}
    found = []
    for name, values in extra.items():
        peer = sum(extra["explicit"]) / len(seeds)
        label = f"efficient_memory/{name.replace(' ', '_')}"
        found.append(record("efficient attention", label, values, "MiB", seeds=seeds, peer=peer))
    shares = [
        chunked / max(explicit, 1e-9) for chunked, explicit in zip(extra["chunked"], extra["explicit"], strict=True)
    ]
    goal = None if quick else "< 0.1"
    found.append(record("efficient attention", "efficient_memory/chunked_share", shares, "", seeds=seeds, goal=goal))
    return found


def _in_a_process(name: str, tokens: int, seed: int) -> float:
    command = [sys.executable, "-m", "benchmarks.efficient_memory", name, str(tokens), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
    if done.returncode:
        raise RuntimeError(f"efficient_memory: expected a number of {name}, got {done.stderr[-500:]}")
    return float(done.stdout)


def extra_mebibytes(name: str, tokens: int, seed: int) -> float:
    """Run a method once, forward and backward, and return how far resident memory rose above its level before.

    Args:
        name: One of ``OPTIONS``.
        tokens: Length of the input.
        seed: Seed of the input.

    Returns:
        MiB. Where the system does not let the high-water mark be set back, a peak while torch was imported may count:
        then the rise is overstated, never understated.
    """
    torch.set_num_threads(1)
    attend = head_attention(name, WIDTH, **OPTIONS[name])
    small = [x.requires_grad_() for x in torch.randn(3, 1, HEADS, 64, WIDTH).unbind()]
    attend(*small).sum().backward()  # what libraries load on first use belongs to the level before
    drawn = torch.randn(3, 1, HEADS, tokens, WIDTH, generator=torch.Generator().manual_seed(seed))
    inputs = [x.clone().requires_grad_() for x in drawn.unbind()]
    with contextlib.suppress(OSError):
        MARKS.write_text("5", encoding="ascii")  # sets the high-water mark back to what is resident now
    before = _kibibytes("VmRSS")
    attend(*inputs).sum().backward()
    return (_kibibytes("VmHWM") - before) / 2**10


def _kibibytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"efficient_memory: expected {field} in {STATUS}, found none; measure on Linux")
    return int(found[1])


if __name__ == "__main__":
    print(extra_mebibytes(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
