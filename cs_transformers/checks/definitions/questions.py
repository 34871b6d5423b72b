"""Checks of notebook 06: what is computed on which inputs."""

from __future__ import annotations

from typing import Any

import torch

from cs_transformers import analysis
from cs_transformers.attention import attention_weights

from .probe import D, K, N, Probe, S, T, as_array, check
from .training import GOAL

MARGIN = 1e-4  # far above rounding in float32
ARGUMENTS = ("query", "key", "value", "mask", "dropout_p")


@check("6.1")
def _score_statistics(probe: Probe) -> None:
    """Variance and entropy of the scores, for two numbers of heads."""
    query, key = probe.tensor("query", N, T, D), probe.tensor("key", N, S, D)
    with probe.part("values"):
        for heads in (1, 3):
            for name, value in sorted(analysis.score_statistics(query, key, heads).items()):
                probe.record(f"{name} with {heads} heads", value)


@check("6.3")
def _cost_ratios(probe: Probe) -> None:
    """All four ratios, for two models."""
    models = {"small": (16, 32, 4, 2), "large": (768, 224, 16, 12)}
    for part, names in (("width and depth", ("width", "depth")), ("image and patch", ("image_side", "patch_size"))):
        with probe.part(f"values: {part}"):
            for size, sizes in models.items():
                ratios = analysis.cost_ratios(*sizes)
                for name in names:
                    probe.record(f"{name} of the {size} model", float(ratios[name]))


@check("6.4")
def _one_token(probe: Probe) -> None:
    """The three predicted tensors."""
    predicted = analysis.predict_one_token(T, K)
    with probe.part("values"):
        probe.record("weights", predicted["weights"].double())
    with probe.part("values: gradients"):
        for name in ("query_gradient", "key_gradient"):
            probe.record(name, predicted[name].double())


@check("6.5")
def _find_the_fault(probe: Probe) -> None:
    """The inputs that were built; another process measures what they show."""
    found = analysis.find_the_fault()
    for name in sorted(analysis.FAULTY):
        with probe.part(f"score: {name}"):
            for argument in ARGUMENTS:
                if found[name].get(argument) is not None:
                    probe.record(argument, found[name][argument])


@check("score 6.5")
def _measure_the_faults(probe: Probe) -> None:
    """On each input the faulty function must differ from right attention, which must take the input."""
    for name in sorted(analysis.FAULTY):
        with probe.part(f"score: {name}"):
            probe.record("your input", _what_happens(probe, name))


def _what_happens(probe: Probe, name: str) -> str:
    given = {argument: probe.given.get(f"score: {name}/{argument}") for argument in ARGUMENTS}
    inputs: dict[str, Any] = {key: torch.from_numpy(value) for key, value in given.items() if value is not None}
    if "dropout_p" in inputs:
        inputs["dropout_p"] = float(as_array(inputs["dropout_p"]))
    try:
        margin = analysis.fault_margin(name, inputs)
    except (ValueError, TypeError) as error:
        return f"right attention cannot take it: {error}"
    if margin > MARGIN:
        return GOAL
    reasons = ", ".join(_reasons(name, inputs)) or "the fault does not show here"
    return f"the function agrees with right attention on it: {reasons}"


def _reasons(name: str, inputs: dict[str, Any]) -> list[str]:
    """What about an input hides the fault of a function."""
    query, key, value, mask = inputs["query"], inputs["key"], inputs["value"], inputs.get("mask")
    scores = query @ key.transpose(-2, -1)
    weights = attention_weights(scores / query.shape[-1] ** 0.5, mask)
    seen = torch.ones(1, dtype=torch.bool) if mask is None else (mask != 0).any(dim=-1)
    square = weights.shape[-1] == weights.shape[-2]
    reasons = {
        "the values are all alike": ("abd", bool((value == value[..., :1, :]).all())),
        "the head width is 1": ("a", query.shape[-1] == 1),
        "the scores of each query are all alike": ("a", bool((scores == scores[..., :1]).all())),
        "there is no mask": ("b", mask is None),
        "every query may look at some key": ("b", mask is not None and bool(seen.all())),
        "dropout_p is 0": ("c", not inputs.get("dropout_p")),
        "the weights are symmetric": ("d", square and torch.allclose(weights, weights.transpose(-2, -1))),
    }
    return [reason for reason, (names, holds) in reasons.items() if name in names and holds]
