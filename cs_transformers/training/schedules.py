"""Schedules of the learning rate: functions from the step to a factor between 0 and 1.

A factor of 1 is the optimizer's own rate. Steps are counted from 0 as the loop counts them; inside, the first update is
step 1, so that a warm-up never starts with a rate of zero and no division by zero can occur. Every factor is finite and
above zero at every step, also beyond the planned end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]
SCHEDULES = ("constant", "cosine", "linear", "one-cycle")


def constant(warmup: int = 0) -> Schedule:
    """Rise in a straight line, then stay: the plainest schedule.

    Args:
        warmup: Number of steps of the rise; the last of them is the first at the full rate. 0 and 1 both start there.

    Returns:
        The schedule, a function of the step.

    Raises:
        ValueError: If ``warmup`` is negative.

    Example:
        >>> [constant(warmup=4)(step) for step in range(5)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    warmup = _checked_warmup("constant", warmup)
    return lambda step: min(1.0, _count("constant", step) / warmup)


def warmup_cosine(total: int, *, warmup: int = 0, floor: float = 0.01) -> Schedule:
    """Rise in a straight line to the peak, then fall along half a cosine.

    ``factor(s) = s / warmup`` up to the peak, then ``floor + (1 - floor) (1 + cos(pi p)) / 2`` with ``p`` from 0 at the
    peak to 1 at ``total``.

    Args:
        total: Number of steps of the whole training.
        warmup: Number of steps of the rise; its last step has the peak. 0 and 1 both start at the peak.
        floor: Factor at the end and after it, in (0, 1].

    Returns:
        The schedule, a function of the step.

    Raises:
        ValueError: If the counts are not 0 <= warmup <= total or the floor is not in (0, 1].

    Example:
        >>> factor = warmup_cosine(100, warmup=10)
        >>> factor(0), factor(9), round(factor(99), 6), round(factor(5000), 6)
        (0.1, 1.0, 0.01, 0.01)

    Source:
        Loshchilov and Hutter 2017, SGDR, section 3, arXiv:1608.03983 (one cycle without restarts).
    """
    warmup = _checked_span("warmup_cosine", total, warmup, floor)

    def factor(step: int) -> float:
        count = _count("warmup_cosine", step)
        if count <= warmup:
            return count / warmup
        return floor + (1 - floor) * _cosine_fall(count, warmup, total)

    return factor


def warmup_linear(total: int, *, warmup: int = 0, hold: float = 0.0, floor: float = 0.01) -> Schedule:
    """Rise, stay at the peak for a while, then fall in a straight line: a trapezoid.

    Args:
        total: Number of steps of the whole training.
        warmup: Number of steps of the rise; its last step has the peak. 0 and 1 both start at the peak.
        hold: Share of ``total`` at whose end the fall begins, in [0, 1).
        floor: Factor at the end and after it, in (0, 1].

    Returns:
        The schedule, a function of the step.

    Raises:
        ValueError: If the counts are not 0 <= warmup <= total, the floor is not in (0, 1] or ``hold`` not in [0, 1).

    Example:
        >>> factor = warmup_linear(100, warmup=10, hold=0.5, floor=0.1)
        >>> factor(4), factor(9), factor(49), round(factor(74), 2), round(factor(99), 2)
        (0.5, 1.0, 1.0, 0.55, 0.1)
    """
    warmup = _checked_span("warmup_linear", total, warmup, floor)
    if not 0 <= hold < 1:
        raise ValueError(
            f"warmup_linear: expected hold in [0, 1), got {hold}; give the share of the training before the fall."
        )
    start = max(warmup, round(hold * total))

    def factor(step: int) -> float:
        count = _count("warmup_linear", step)
        if count <= start:
            return min(1.0, count / warmup)
        return floor + (1 - floor) * max(0, total - count) / max(1, total - start)

    return factor


def one_cycle(total: int, *, peak: float = 0.2, start: float = 0.04, floor: float = 4e-6) -> Schedule:
    """Rise along half a cosine to the peak, then fall along another half.

    Args:
        total: Number of steps of the whole training.
        peak: Share of ``total`` at which the factor is 1, in [0, 1].
        start: Factor at the first step, in (0, 1].
        floor: Factor at the end and after it, in (0, 1].

    Returns:
        The schedule, a function of the step.

    Raises:
        ValueError: If ``total`` is not positive, or ``peak``, ``start`` or ``floor`` lie outside their ranges.

    Example:
        >>> factor = one_cycle(100, peak=0.2)
        >>> round(factor(0), 3), factor(19), factor(99) < 1e-5
        (0.04, 1.0, True)

    Source:
        Smith and Topin 2018, Super-convergence, section 3, arXiv:1708.07120.
    """
    if not 0 <= peak <= 1:
        raise ValueError(f"one_cycle: expected peak in [0, 1], got {peak}; give the share of the training before it.")
    if not 0 < start <= 1:
        raise ValueError(f"one_cycle: expected start in (0, 1], got {start}; a rate of zero would learn nothing.")
    top = _checked_span("one_cycle", total, round(peak * total) if total > 0 else 0, floor)

    def factor(step: int) -> float:
        count = _count("one_cycle", step)
        if count < top:
            return 1 - (1 - start) * _cosine_fall(count, 1, top)
        return floor + (1 - floor) * _cosine_fall(count, top, total)

    return factor


def make_schedule(name: str, total: int, *, warmup: int = 0, floor: float = 0.01) -> Schedule:
    """Build a schedule by its name, as a recipe names it.

    Args:
        name: "constant", "cosine", "linear" or "one-cycle".
        total: Number of steps of the whole training.
        warmup: Number of steps of the rise; for "one-cycle" 0 means a fifth of the training.
        floor: Factor at the end; "constant" has none.

    Returns:
        The schedule, a function of the step.

    Raises:
        ValueError: If the name is unknown, or the numbers do not fit the schedule.

    Example:
        >>> make_schedule("cosine", 100, warmup=10)(9)
        1.0
    """
    if name == "constant":
        return constant(warmup)
    if name == "cosine":
        return warmup_cosine(total, warmup=warmup, floor=floor)
    if name == "linear":
        return warmup_linear(total, warmup=warmup, floor=floor)
    if name == "one-cycle":
        return one_cycle(total, peak=warmup / total if warmup and total > 0 else 0.2, floor=floor)
    raise ValueError(
        f"make_schedule: expected 'constant', 'cosine', 'linear' or 'one-cycle', got {name!r}; "
        "name one of them or pass a function of the step."
    )


def _cosine_fall(count: int, start: int, end: int) -> float:
    """1 at ``start``, 0 from ``end`` on, half a cosine between."""
    share = min(1.0, (count - start) / max(1, end - start))
    return (1 + math.cos(math.pi * share)) / 2


def _count(who: str, step: int) -> int:
    if step < 0:
        raise ValueError(f"{who}: expected a step of 0 or more, got {step}; count the steps from 0.")
    return step + 1


def _checked_warmup(who: str, warmup: int) -> int:
    if warmup < 0:
        raise ValueError(f"{who}: expected a warm-up of 0 or more steps, got {warmup}; 0 starts at the full rate.")
    return max(1, warmup)


def _checked_span(who: str, total: int, warmup: int, floor: float) -> int:
    if total < 1:
        raise ValueError(f"{who}: expected at least one step in total, got {total}; give the length of the training.")
    if warmup > total:
        raise ValueError(
            f"{who}: expected a warm-up of at most {total} steps (the total), got {warmup}; "
            "shorten the warm-up or train longer."
        )
    if not 0 < floor <= 1:
        raise ValueError(f"{who}: expected floor in (0, 1], got {floor}; a rate of zero would learn nothing.")
    return _checked_warmup(who, warmup)
