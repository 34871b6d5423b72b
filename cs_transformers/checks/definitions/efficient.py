"""Checks of notebook 10: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from cs_transformers import efficient, windows

from .probe import H, K, N, Probe, S, T, check

BLOCK, VALUE, FEATURES = 3, 7, 8


@check("10.1")
def _online_softmax_step(probe: Probe) -> None:
    """One step from a state in the middle, rows of -inf, and whole softmaxes out of blocks of several sizes."""
    scores, value = probe.tensor("scores", N, H, T, BLOCK, scale=4.0), probe.tensor("value", N, H, BLOCK, VALUE)
    state = _middle(probe)
    with probe.part("values"):
        _record_state(probe, efficient.online_softmax_step(state, scores, value), "")
        higher = efficient.online_softmax_step(state, scores - 20, value)
        _record_state(probe, higher, " when the block is far below")
    with probe.part("values: queries that have seen nothing"):
        blocked = scores.masked_fill(probe.mask("blocked", T, BLOCK), -torch.inf).clone()
        blocked[:, :, 1] = -torch.inf
        _record_state(probe, efficient.online_softmax_step(_empty(), blocked, value), " from the empty state")
        _record_state(probe, efficient.online_softmax_step(state, blocked, value), " from a state in the middle")
    with probe.part("gradients"):
        first = efficient.online_softmax_step(_empty(), scores, value)
        mixed, _, total = efficient.online_softmax_step(first, scores.flip(-1) - 1, value)
        probe.gradients(mixed / total, scores=scores, value=value)
        blocked = scores.masked_fill(torch.arange(T).unsqueeze(-1) == 2, -torch.inf)
        mixed, _, total = efficient.online_softmax_step(_empty(), blocked, value)
        probe.gradients(mixed / total.clamp(min=1e-3), **{"scores with a blocked row": scores})
    with probe.part("dropout"):
        probe.dropout_as_factor()
        dropped = efficient.online_softmax_step(state, scores, value, dropout_p=0.3)
        _record_state(probe, dropped, " with dropout")
    with probe.part("invariant: any blocks give the softmax"):
        scores, value = probe.tensor("all scores", N, H, T, 6, scale=30.0), probe.tensor("values", N, H, 6, VALUE)
        for sizes in ([6], [1, 1, 1, 1, 1, 1], [4, 2], [1, 5]):
            state = _empty()
            for part, rows in zip(scores.split(sizes, -1), value.split(sizes, -2), strict=True):
                state = efficient.online_softmax_step(state, part, rows)
            probe.record(f"the result of blocks of {sizes}", state[0] / state[2])


def _empty() -> tuple[Tensor, Tensor, Tensor]:
    zeros = torch.zeros(N, H, T, 1, dtype=torch.float64)
    return torch.zeros(N, H, T, VALUE, dtype=torch.float64), zeros - torch.inf, zeros


def _middle(probe: Probe) -> tuple[Tensor, Tensor, Tensor]:
    top = probe.tensor("top", N, H, T, 1, scale=4.0).detach()
    total = 1 + probe.tensor("total", N, H, T, 1).detach().abs()
    return probe.tensor("mixed", N, H, T, VALUE).detach(), top, total


def _record_state(probe: Probe, state: tuple[Tensor, Tensor, Tensor], case: str) -> None:
    for name, part in zip(("mixed", "top", "total"), state, strict=True):
        probe.record(f"{name}{case}", part)


@check("10.2")
def _linear_attention(probe: Probe) -> None:
    """Features of both signs; attention over another sequence, with padding, and with nothing but padding."""
    x = probe.tensor("x", N, H, T, K, scale=2.0)
    query, key = (probe.tensor(name, N, H, length, FEATURES).abs() for name, length in (("query", T), ("key", S)))
    value = probe.tensor("value", N, H, S, VALUE)
    with probe.part("values: positive_features"):
        probe.record("features", efficient.positive_features(x))
    with probe.part("values: linear_attention"):
        probe.record("out", efficient.linear_attention(query, key, value))
    with probe.part("values: padding"):
        real = probe.mask("real", N, S)
        probe.record("out with padding", efficient.linear_attention(query, key, value, real))
        real = real & (torch.arange(N).unsqueeze(-1) != 1)
        probe.record("out of nothing but padding", efficient.linear_attention(query, key, value, real))
    with probe.part("gradients"):
        probe.gradients(efficient.positive_features(x), **{"x": x})
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in (("query", query), ("key", key))}
        probe.gradients(efficient.linear_attention(*leaves.values(), value), leaves, value=value)


@check("10.3")
def _linear_attention_step(probe: Probe) -> None:
    """One step from a state in the middle, steps that see nothing, and a whole sequence."""
    query, key = (probe.tensor(name, N, H, FEATURES).abs() for name in ("query", "key"))
    value = probe.tensor("value", N, H, VALUE)
    with probe.part("values"):
        _record_step(probe, efficient.linear_attention_step(_memory(probe), query, key, value), "")
    with probe.part("values: nothing seen yet"):
        empty = efficient.linear_state(query, value)
        _record_step(probe, efficient.linear_attention_step(empty, query, 0 * key, value), " of padding first")
        _record_step(probe, efficient.linear_attention_step(empty, query, key, value), " of the first token")
    with probe.part("gradients"):
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in (("query", query), ("key", key))}
        out, state = efficient.linear_attention_step(_memory(probe), *leaves.values(), value)
        later, _ = efficient.linear_attention_step(state, leaves["key"], leaves["query"], 2 * value)
        probe.gradients(out + later, leaves, value=value)
    with probe.part("invariant: steps give what the masked square gives"):
        query, key = (probe.tensor(f"all of {name}", N, H, T, FEATURES).abs() for name in ("query", "key"))
        values = probe.tensor("values", N, H, T, VALUE)
        probe.record("out of all steps", efficient.recurrent_linear_attention(query, key, values))


def _memory(probe: Probe) -> tuple[Tensor, Tensor]:
    context = probe.tensor("context", N, H, FEATURES, VALUE).detach()
    return context, 1 + probe.tensor("total", N, H, FEATURES).detach().abs()


def _record_step(probe: Probe, step: tuple[Tensor, tuple[Tensor, Tensor]], case: str) -> None:
    out, (context, total) = step
    for name, part in (("out", out), ("context", context), ("total", total)):
        probe.record(f"{name}{case}", part)


@check("10.4")
def _windows(probe: Probe) -> None:
    """Grids of several forms, masks of several shifts, and attention on a shifted grid."""
    square = probe.integers("square", N, 6, 6, 2, high=1000)
    with probe.part("values: window_partition"):
        probe.record("windows of a square", windows.window_partition(square, 3))
    with probe.part("values: rectangles"):
        probe.record("windows of a high grid", windows.window_partition(probe.integers("high", 2, 6, 4, 5, high=99), 2))
        probe.record("windows of a wide grid", windows.window_partition(probe.integers("wide", 1, 3, 9, 2, high=99), 3))
        probe.record("windows of one token", windows.window_partition(square, 1))
    with probe.part("values: shift_mask"):
        probe.record("mask of (6, 6) shifted by 1", windows.shift_mask((6, 6), 3, (1, 1)))
        probe.record("mask of (8, 4) shifted by 2", windows.shift_mask((8, 4), 4, (2, 2)))
    with probe.part("values: other shifts in rows and columns"):
        probe.record("mask of (4, 8) shifted by (1, 3)", windows.shift_mask((4, 8), 4, (1, 3)))
        probe.record("mask of (6, 9) shifted by (0, 2)", windows.shift_mask((6, 9), 3, (0, 2)))
        probe.record("mask without a shift", windows.shift_mask((4, 6), 2, (0, 0)))
    with probe.part("gradients"):
        x = probe.tensor("x", N, 4, 6, 2)
        probe.gradients(windows.window_partition(x, 2), x=x)
    with probe.part("invariant: neighbours in the image"):
        tokens = probe.tensor("tokens", N, H, 36, K)
        probe.record("out on a shifted grid", windows.shifted_window_attention(tokens, tokens, tokens, (6, 6), 3, 1))


@check("10.5")
def _fit_exponent(probe: Probe) -> None:
    """Exact power laws, and points beside the line."""
    lengths = [64, 128, 512, 4096]
    with probe.part("values: power laws"):
        for power in (0.0, 1.0, 2.0):
            costs = [3e-6 * length**power for length in lengths]
            probe.record(f"exponent of length^{power:g}", efficient.fit_exponent(lengths, costs))
    with probe.part("values: measured points"):
        noise = probe.random("noise").uniform(0.5, 2.0, (2, len(lengths)))
        for row, power in zip(noise, (1.3, 1.8), strict=True):
            costs = [factor * length**power for factor, length in zip(row, lengths, strict=True)]
            probe.record(f"exponent of points beside length^{power:g}", efficient.fit_exponent(lengths, costs))
