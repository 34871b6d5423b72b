"""Speed of multi-head attention: the fused path against the explicit one and against torch's own module."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from benchmarks.records import Record, record, save_picture
from cs_transformers.attention import MultiHeadAttention, causal_mask
from cs_transformers.plots import grouped_bars

SIZES = {"short": (64, 32, 128, 4), "long": (4, 512, 256, 8)}  # N, T, D, H
ROUNDS, QUICK_ROUNDS = 25, 2


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Time a forward and backward pass of causal self-attention, all three in turn within each round.

    The ratio of times within one round hardly depends on what else the machine does; the median of the rounds is kept.

    Args:
        quick: Few rounds on small inputs, to show that it works.
        seeds: Seeds of weights and inputs, one repeat each.

    Returns:
        Milliseconds of the fused path beside those of the explicit path and of torch's module.
    """
    found = []
    for size, (N, T, D, H) in SIZES.items():
        sizes = (2, 16, 32, 4) if quick else (N, T, D, H)
        times = [_rounds(*sizes, rounds=QUICK_ROUNDS if quick else ROUNDS, seed=seed) for seed in seeds]
        for peer in ("explicit", "torch"):
            ratios = [statistics.median(row["fused"] / row[peer] for row in one) for one in times]
            fused = [1000 * statistics.median(row["fused"] for row in one) for one in times]
            other = statistics.mean(1000 * statistics.median(row[peer] for row in one) for one in times)
            name = f"attention_speed/{size}_against_{peer}"
            made = record("attention", name, fused, "ms", seeds=seeds, peer=other)
            made.ratio = statistics.mean(ratios)
            found.append(made)
    if not quick:
        _draw(found)
    return found


def _draw(records: list[Record]) -> None:
    groups = [f"{size}: T = {T}, D = {D}" for size, (_, T, D, _) in SIZES.items()]
    bars = {
        f"against {peer}": [found.ratio for found in records if found.name.endswith(f"against_{peer}")]
        for peer in ("explicit", "torch")
    }
    title = "Time of the fused path as a share of its peers'"
    save_picture("attention_speed", grouped_bars(groups, bars, ylabel="ratio of times", title=title))


def _rounds(N: int, T: int, D: int, H: int, *, rounds: int, seed: int) -> list[dict[str, float]]:
    torch.manual_seed(seed)
    ours, theirs = MultiHeadAttention(D, H, dropout=0.0), nn.MultiheadAttention(D, H, batch_first=True)
    x, allowed = torch.randn(N, T, D, requires_grad=True), causal_mask(T)
    blocked = ~allowed
    calls: dict[str, Callable[[], Tensor]] = {
        "fused": lambda: ours(x, x, x, allowed),
        "explicit": lambda: ours(x, x, x, allowed, need_weights=True)[0],
        "torch": lambda: theirs(x, x, x, attn_mask=blocked, need_weights=False)[0],
    }
    for call in calls.values():
        _seconds(call)  # the first call of each allocates and chooses kernels
    return [{name: _seconds(call) for name, call in calls.items()} for _ in range(rounds)]


def _seconds(call: Callable[[], Tensor]) -> float:
    started = time.perf_counter()
    call().sum().backward()
    return time.perf_counter() - started
