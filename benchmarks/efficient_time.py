"""Time of attention over the length of the input: which power of the length each method grows with."""

from __future__ import annotations

import ctypes
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.records import Record, record, save_picture
from cs_transformers.efficient import fit_exponent
from cs_transformers.efficient_methods import head_attention, seconds_of
from cs_transformers.plots import cost_curves

LENGTHS = (1024, 2048, 4096, 8192, 16384)
QUADRATIC = ("explicit", "chunked")
SQUARE_LENGTHS = 4  # all pairs of the longest input would need gigabytes
WIDTH, REPEATS, AREA = 32, 3, "efficient attention"
GOALS = dict.fromkeys(("linear", "sliding window", "shifted window"), "<= 1.15") | {"explicit": "<= 2.2"}


def options(name: str, length: int) -> dict[str, Any]:
    """What a method may look at does not grow with the length."""
    return {
        "low rank": {"max_len": length, "rank": 64},
        "sliding window": {"window": 64},
        "shifted window": {"grid": (32, length // 32), "window": 8, "shift": 4},
        "buckets": {"num_buckets": max(2, length // 64), "chunk_size": 64, "rounds": 1},
    }.get(name, {})


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Time a forward pass at each length and fit the exponent on log axes.

    Args:
        quick: Short inputs, to show that it works.
        seeds: Seeds of the inputs, one repeat of all measurements each.

    Returns:
        The exponent of each method, and its time at the longest input that the explicit form took.
    """
    if not quick:
        _keep_freed_memory()
    lengths = (64, 128) if quick else LENGTHS
    names = [*QUADRATIC, "linear", "random features", "low rank", "sliding window", "shifted window", "buckets"]
    of = {name: lengths[:SQUARE_LENGTHS] if name in QUADRATIC else lengths for name in names}
    times = {name: [_times(name, of[name], seed) for seed in seeds] for name in names}
    found = []
    for name in names:
        label, powers = name.replace(" ", "_"), [fit_exponent(of[name], one) for one in times[name]]
        goals = [GOALS.get(name)] if name != "explicit" else [">= 1.8", GOALS[name]]
        for goal, end in zip(goals, ("", "_at_most"), strict=False):
            goal = None if quick else goal
            found.append(record(AREA, f"efficient_time/exponent_{label}{end}", powers, "", seeds=seeds, goal=goal))
        last = len(of["explicit"]) - 1
        longest = [1000 * one[last] for one in times[name]]
        peer = statistics.mean(1000 * one[last] for one in times["explicit"])
        made = record(AREA, f"efficient_time/{lengths[last]}_tokens_{label}", longest, "ms", seeds=seeds, peer=peer)
        found.append(made)
    if not quick:
        curves = {name: [statistics.mean(column) for column in zip(*rows, strict=True)] for name, rows in times.items()}
        title = "time of one forward pass, one head of width 32"
        save_picture("efficient_time", cost_curves(lengths, curves, ylabel="seconds of processor time", title=title))
    return found


def _keep_freed_memory() -> None:
    """Let glibc reuse what was freed.

    By default it asks the system anew for each block above 32 MiB, and every page of it costs time: explicit attention
    crosses that size between 2,048 and 4,096 tokens, and the step would look like a higher power.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-4, 0)  # M_MMAP_MAX: no block from the system by itself
        libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: nothing goes back


@torch.no_grad()
def _times(name: str, lengths: Sequence[int], seed: int) -> list[float]:
    found = []
    for length in lengths:
        generator = torch.Generator().manual_seed(seed)
        q, k, v = torch.randn(3, 1, 1, length, WIDTH, generator=generator)
        attend = head_attention(name, WIDTH, **options(name, length))
        found.append(seconds_of(lambda a=attend, x=(q, k, v): a(*x), repeats=REPEATS))
    return found
