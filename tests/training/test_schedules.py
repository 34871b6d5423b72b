"""Schedules: never zero, never infinite, the peak where it belongs."""

from __future__ import annotations

import math

import pytest
import torch

from cs_transformers.training.schedules import constant, make_schedule, one_cycle, warmup_cosine, warmup_linear

SPANS = [(1, 0), (1, 1), (2, 1), (7, 0), (7, 7), (100, 10), (100, 99), (3000, 100)]


@pytest.mark.parametrize(("total", "warmup"), SPANS)
@pytest.mark.parametrize("name", ["constant", "cosine", "linear", "one-cycle"])
def test_factors_are_finite_and_positive_at_every_step(name: str, total: int, warmup: int) -> None:
    factor = make_schedule(name, total, warmup=warmup)
    values = [factor(step) for step in [*range(total + 5), 10 * total, 10**9]]
    assert all(math.isfinite(value) and 0 < value <= 1 for value in values)


@pytest.mark.parametrize(("total", "warmup"), SPANS)
@pytest.mark.parametrize("make", [warmup_cosine, warmup_linear])
def test_the_peak_is_the_last_step_of_the_warm_up(make, total: int, warmup: int) -> None:
    factor = make(total, warmup=warmup)
    values = [factor(step) for step in range(total)]
    peak = max(1, warmup) - 1
    assert values[peak] == 1
    assert values[: peak + 1] == sorted(values[: peak + 1])
    assert all(value < 1 for value in values[:peak] + values[peak + 1 :])
    assert values[peak:] == sorted(values[peak:], reverse=True)


def test_cosine_equals_torch_behind_the_warm_up() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    oracle = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40, eta_min=0.1)
    factor = warmup_cosine(45, warmup=5, floor=0.1)
    for step in range(4, 45):
        assert factor(step) == pytest.approx(oracle.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        oracle.step()


def test_one_cycle_has_the_shape_of_torchs() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    oracle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=101, pct_start=0.2, cycle_momentum=False)
    factor = one_cycle(101, peak=0.2, floor=4e-6)
    for step in range(100):
        assert factor(step) == pytest.approx(oracle.get_last_lr()[0], abs=0.02)
        optimizer.step()
        oracle.step()


def test_linear_stays_at_the_peak_while_it_is_held() -> None:
    factor = warmup_linear(100, warmup=10, hold=0.3, floor=0.02)
    assert [factor(step) for step in range(9, 30)] == [1.0] * 21
    falls = [factor(step) - factor(step + 1) for step in range(29, 99)]
    assert falls == pytest.approx([0.98 / 70] * 70)
    assert factor(99) == pytest.approx(0.02)


def test_constant_without_warm_up_is_one_from_the_first_step() -> None:
    assert [constant()(step) for step in (0, 1, 500)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: constant(warmup=-1), "expected a warm-up of 0 or more"),
        (lambda: warmup_cosine(0), "expected at least one step"),
        (lambda: warmup_cosine(10, warmup=11), "expected a warm-up of at most 10 steps"),
        (lambda: warmup_linear(10, warmup=-2), "expected a warm-up of 0 or more"),
        (lambda: warmup_cosine(10, floor=0.0), r"expected floor in \(0, 1\]"),
        (lambda: warmup_linear(10, hold=1.0), r"expected hold in \[0, 1\)"),
        (lambda: one_cycle(10, peak=1.5), r"expected peak in \[0, 1\]"),
        (lambda: one_cycle(10, start=0.0), r"expected start in \(0, 1\]"),
        (lambda: one_cycle(0), "expected at least one step"),
        (lambda: make_schedule("one-cycle", 0), "expected at least one step"),
        (lambda: make_schedule("cosin", 10), "expected 'constant', 'cosine', 'linear' or 'one-cycle', got 'cosin'"),
        (lambda: warmup_cosine(10)(-1), "expected a step of 0 or more, got -1"),
        (lambda: constant()(-1), "expected a step of 0 or more"),
    ],
)
def test_impossible_schedules_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
