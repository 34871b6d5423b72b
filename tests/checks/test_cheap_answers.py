"""No answer that says nothing earns a point: constants of the right shape and kind, or the input handed back."""

from __future__ import annotations

import ast
import textwrap

import pytest

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.markers import Region
from cs_transformers.checks.tree import PACKAGE

TRAINED = ("4.6", "5.4", "5.5")  # they hand in weights, which are judged by what they can do
# 3.5 returns modules, which hold no numbers of their own. 6.5 asks for inputs on which a fault shows: where any input
# with dropout shows it, a constant one is a right answer.
WITHOUT_NUMBERS = ("3.5", "6.5")
EARNED = {("6.4", "1"): 1}  # the weight of one token is the constant 1: that is its answer
CODED = [id for id, one in EXERCISES.items() if one.parts and id not in (*TRAINED, *WITHOUT_NUMBERS)]

REPLACED = """
def _replaced(result, given):
    import torch as t
    if isinstance(result, t.Tensor):
        return {tensor}
    if isinstance(result, (list, tuple)):
        return type(result)(_replaced(one, given) for one in result)
    if isinstance(result, dict):
        return {{key: _replaced(one, given) for key, one in result.items()}}
    return type(result)({number}) if isinstance(result, (bool, int, float)) else result
"""
CONSTANT = (
    "t.full_like(result, bool({0}) if result.dtype == t.bool else int({0}) if not result.is_floating_point() else {0})"
)
INPUT = (
    "next((one.reshape(result.shape) for one in given "
    "if isinstance(one, t.Tensor) and (one.dtype, one.numel()) == (result.dtype, result.numel())), "
    "t.zeros_like(result))"
)
ANSWERS = {"0": (CONSTANT.format(0), "0"), "1": (CONSTANT.format(1), "1"),
           "the input": (INPUT, "0")}  # fmt: skip


def instead(file: str, region: Region, kind: str) -> str:
    """A body with results of the right shapes, dtypes and devices, and none of the right numbers."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if node.lineno <= region.first <= (node.end_lineno or 0)]
    function = max(around, key=lambda node: node.lineno)
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    given = [name for name in names if name != "self"]
    targets = [target for one in ast.walk(function) if isinstance(one, ast.Assign) for target in one.targets]
    stored = [one for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    before = {one.id for one in stored if one.lineno < region.first}
    again = before & {one.id for one in stored if one.lineno > region.first}
    names += sorted(again - set(names))  # what the body binds again is its own there
    tensor, number = ANSWERS[kind]
    solved = textwrap.indent(textwrap.dedent(region.body), "    ")
    signature = ", ".join(f"{name}={name}" for name in names)
    return (
        f"{REPLACED.format(tensor=tensor, number=number)}\ndef _solved({signature}):\n{solved}\n"
        f"return _replaced(_solved(), [{', '.join(given)}])\n"
    )


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("id", CODED)
def test_an_answer_that_says_nothing_earns_nothing(id: str, kind: str, bench) -> None:
    file = EXERCISES[id].file
    regions = {name: region for name, region in bench.solved.regions[file].items() if region.exercise == id}
    verdict = bench.verdict(id, **{name: instead(file, region, kind) for name, region in regions.items()})
    assert verdict.parts, f"it must be judged by its numbers, not refused: {verdict}"
    assert not any("Error" in line for line in verdict.lines[:1]), str(verdict)
    assert verdict.points == EARNED.get((id, kind), 0), verdict.parts


@pytest.mark.parametrize(
    "body",
    [
        "return torch.zeros(target_length, source_length, dtype=torch.bool, device=device)\n",
        "return torch.ones(target_length, source_length, dtype=torch.bool, device=device)\n",
        "return torch.ones(target_length, source_length, dtype=torch.bool, device=device).triu()\n",
    ],
)
def test_the_device_of_a_wrong_mask_earns_nothing(body: str, bench) -> None:
    verdict = bench.verdict("1.4", **{"1.4": body})
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert verdict.parts == {"values": False, "values: the device asked for": None}
