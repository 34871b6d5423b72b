"""What a student may read of a graded run: sentences in our own words, a picture of expected against got.

A graded tree holds the solutions of other exercises, and students' code runs among them. So nothing that code can
choose (messages, names of classes, texts, long shapes) reaches a student from such a run. Messages, numbers and
pictures come from a second run, on the student's own tree with the inputs of the visible check: it holds no secret.
"""

from __future__ import annotations

import builtins
import math
import re
from typing import Any

import numpy as np

from cs_transformers.checks.client import Answer
from cs_transformers.checks.comparison import differing
from cs_transformers.checks.stages import ADVICE, Finding, examine
from cs_transformers.checks.wire import DTYPES

SIDE = 12  # of a picture, in entries
_SHAPE = re.compile(r"\(\d{0,5}(, \d{1,5}){0,5},?\)")
_NUMBER = re.compile(r"-?(\d{1,6}(\.\d{1,6})?(e[+-]\d{1,3})?|inf|nan)|True|False")
_KINDS = {"bool", "int", "float", "str", "NoneType", "list", "tuple", "dict", "Tensor", "no value"}
_KINDS |= {f"{dtype} {thing}" for dtype in (*DTYPES, "bfloat16") for thing in ("tensor", "array")}


def plain_sentence(finding: Finding, expected: Answer, answer: Answer, files: dict[str, str]) -> str:
    """What is wrong, without a word that the answer has chosen.

    Args:
        finding: What failed in a graded run.
        expected: What the reference recorded.
        answer: What the answer recorded.
        files: Sources of the tree by path; a place in any other file is left out.
    """
    if finding.error is not None:
        return f"{_part(finding.error['part'])}it ends with {known_error(finding.error)}{_place(finding.error, files)}"
    key, difference = find_difference(finding.part, expected, answer)
    if difference is None:
        return f"{finding.part}: something else comes out"
    name = key[len(finding.part) + 1 :]
    if difference.aspect in ("shape", "dtype"):
        got = _clean(difference.got)
        return f"{finding.part}: {difference.aspect} of {name}: expected {difference.expected}, got {got}"
    if difference.aspect == "text":
        return f"{finding.part}: {name}: something else comes out"
    place = f"[{', '.join(map(str, difference.index))}]" if difference.index else ""
    got = difference.got if _NUMBER.fullmatch(difference.got) else "another number"
    return f"{finding.part}: {name}{place} is the first to differ: expected {difference.expected}, got {got}"


def known_error(error: dict[str, Any]) -> str:
    """The nearest of Python's own exceptions that an error is.

    Args:
        error: A recorded exception.
    """
    for name in error["bases"]:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return name
    return "an exception of its own"


def public_sentences(finding: Finding) -> list[str]:
    """What is wrong and what to look at, from a run without secrets.

    Args:
        finding: What failed in it.
    """
    return [finding.sentence, *([ADVICE[finding.aspect]] if finding.aspect in ADVICE else [])]


def picture(finding: Finding, expected: Answer, answer: Answer) -> dict[str, Any]:
    """Expected and got where they first differ, as small arrays of rounded numbers, or nothing where none helps.

    Args:
        finding: What failed in a run without secrets.
        expected: What the reference recorded.
        answer: What the answer recorded.
    """
    if finding.error is not None:
        return {}
    key, difference = find_difference(finding.part, expected, answer)
    if difference is None or difference.aspect != "values" or not difference.index:
        return {}
    wanted, got = expected.arrays[key], answer.arrays[key]
    index = difference.index
    outer = index[: max(0, len(index) - 2)]
    starts = [max(0, place - SIDE + 1) for place in index[len(outer) :]]
    window = tuple(slice(start, start + SIDE) for start in starts)
    label = f"{finding.part}: {key[len(finding.part) + 1 :]}"
    if outer:
        label += f" [{', '.join(map(str, outer))}]"
    pair = [np.atleast_2d(array[outer][window]) for array in (wanted, got)]
    return {"expected": _rounded(pair[0]), "got": _rounded(pair[1]), "label": label, "starts": starts}


def same_fault(one: Finding, other: Finding, seen: Answer, graded: Answer) -> bool:
    """Whether two runs with the same inputs fail alike, so that one can be shown in place of the other.

    Args:
        one: What failed in the run without secrets.
        other: What failed beside the solutions of other exercises.
        seen: What the first run recorded.
        graded: What the second run recorded.
    """
    if (one.part, one.aspect, one.key) != (other.part, other.aspect, other.key):
        return False
    if one.error is not None or other.error is not None:
        places = [(error["type"], error["file"], error["line"]) for error in (one.error, other.error) if error]
        return len(places) == 2 and places[0] == places[1]
    if one.key not in seen.arrays or one.key not in graded.arrays:
        return seen.kinds.get(one.key) == graded.kinds.get(one.key)
    left, right = seen.arrays[one.key], graded.arrays[one.key]
    return left.shape == right.shape and not differing(left, right).any()


def find_difference(part: str, expected: Answer, answer: Answer) -> tuple[str, Any]:
    """The first recorded value of a part that differs, and how: (key, difference), or ("", None).

    Args:
        part: Part of a check.
        expected: What the reference recorded.
        answer: What the answer recorded.
    """
    finding = examine(part, expected, answer)
    return ("", None) if finding is None or finding.difference is None else (finding.key, finding.difference)


def _clean(got: str) -> str:
    return got if got in _KINDS or _SHAPE.fullmatch(got) else "something else"


def _part(part: str) -> str:
    return "" if part in ("import", "call") else f"{part}: "


def _place(error: dict[str, Any], files: dict[str, str]) -> str:
    if error["file"] not in files or not 0 < error["line"] < 10_000:
        return ""
    return f" ({error['file']}, line {error['line']})"


def _rounded(array: np.ndarray) -> list[list[float | None]]:
    return [[_number(value) for value in row] for row in array.tolist()]


def _number(value: Any) -> float | None:
    if isinstance(value, complex):
        value = abs(value)
    return float(f"{value:.4g}") if math.isfinite(value) else None
