"""From recorded arrays to passed and failed parts: stage by stage, first failure first.

Stages come in this order: ``values`` (each result's shape and dtype, then its numbers), ``gradients`` (error relative
to the largest gradient of the part), ``dropout`` (where it acts, by a fixed factor in its place), ``invariant`` (what
must hold whatever the numbers are), ``score`` (trained weights). A stage counts only when the stages before it pass:
a wrong function that happens to keep an invariant earns nothing for it. Within a stage the part that bears its name
alone comes first: ``values: the device asked for`` counts only where ``values`` passes, whatever the device of wrong
numbers. Parts of a stage that all have names of their own stand beside each other, and each counts by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .client import Answer
from .comparison import Difference, compare_kinds, compare_values, size_of

STAGES = ("values", "gradients", "dropout", "invariant", "score")

ADVICE = {
    "shape": "shape: print the shapes of what goes in and what comes out.",
    "dtype": "dtype: make new tensors from the inputs' dtype and device (x.new_zeros, dtype=x.dtype).",
    "values": "values: the shape is right and the numbers are not.",
    "gradients": "gradients: the values are right, but a gradient is lost or wrong; look for detach, item, or new "
    "tensors made from old numbers.",
    "dropout": "dropout: without dropout all is right; look at where it acts, on what, and with which probability.",
    "invariant": "invariant: the compared values are right, but something that must always hold does not.",
    "score": "score: the code ran to its end, and the result is not good enough yet.",
}


def stage_of(part: str) -> str:
    """The stage of a part (``values: with a mask`` -> ``values``).

    Args:
        part: Name of a part.
    """
    return part.partition(":")[0]


@dataclass
class Finding:
    """Why a part failed.

    Args:
        part: The part.
        aspect: ``shape``, ``dtype``, the stage's name, or ``error``.
        sentence: What is wrong where.
        error: The recorded exception, where that is the reason.
        key: Name of the value that differs, where one does.
        difference: How it differs.
    """

    part: str
    aspect: str
    sentence: str
    error: dict | None = None
    key: str = ""
    difference: Difference | None = None


@dataclass
class Outcome:
    """Findings of one answer, in the order of the parts.

    Args:
        parts: Whether each part passed; None for those that do not count because of what failed before them.
        findings: Why parts failed, in order.
    """

    parts: dict[str, bool | None] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def first(self) -> Finding | None:
        """The finding to show."""
        return self.findings[0] if self.findings else None


def judge(parts: dict[str, int], expected: Answer, answer: Answer) -> Outcome:
    """Compare an answer with the reference's, stage by stage; parts of a stage after a failed one are not judged.

    Where the part that bears the stage's name alone fails, the others of the stage can fail, too, but not pass.

    Args:
        parts: Points by part, in the order of the stages.
        expected: What the reference recorded.
        answer: What the answer recorded.
    """
    outcome = Outcome()
    for stage in STAGES:
        found = {part: examine(part, expected, answer) for part in parts if stage_of(part) == stage}
        grounded = found.get(stage) is None
        for part, finding in found.items():
            outcome.parts[part] = False if finding is not None else True if grounded else None
        outcome.findings = [finding for finding in found.values() if finding is not None]
        if outcome.findings:
            break
    for part in parts:
        outcome.parts.setdefault(part, None)
    return outcome


def examine(part: str, expected: Answer, answer: Answer) -> Finding | None:
    """What is wrong in one part of an answer, or None.

    Args:
        part: The part.
        expected: What the reference recorded.
        answer: What the answer recorded.
    """
    error = next((error for error in answer.errors if error["part"] in (part, "import", "call")), None)
    if error is not None:
        return Finding(part, "error", describe_error(error), error)
    keys = [key for key in expected.kinds if key.startswith(part + "/")]
    scale = None
    if stage_of(part) == "gradients":
        scale = max((size_of(expected.arrays[key]) for key in keys if key in expected.arrays), default=None)
    if not keys:
        return Finding(part, "error", f"{part}: the reference has nothing stored; refresh it")
    for comparison in (_kind_difference, _value_difference):
        for key in keys:
            difference = comparison(key, expected, answer, scale)
            if difference is not None:
                sentence = _sentence(part, key, difference)
                return Finding(part, _aspect(difference, part), sentence, key=key, difference=difference)
    return None


def _kind_difference(key: str, expected: Answer, answer: Answer, _scale: float | None) -> Difference | None:
    if key not in answer.kinds:
        return Difference("shape", (), _shape(key, expected), "no value")
    if (key in expected.arrays) != (key in answer.arrays) or (key in expected.texts) != (key in answer.texts):
        return Difference("shape", (), _shape(key, expected), answer.kinds[key][:60])
    if key in expected.arrays:
        kinds = expected.kinds[key], answer.kinds[key][:60]
        return compare_kinds(expected.arrays[key], answer.arrays[key], *kinds)
    return None


def _value_difference(key: str, expected: Answer, answer: Answer, scale: float | None) -> Difference | None:
    if key in expected.arrays:
        return compare_values(expected.arrays[key], answer.arrays[key], scale)
    if expected.texts.get(key) != answer.texts.get(key):
        return Difference("text", (), expected.texts.get(key, ""), answer.texts.get(key, "")[:200])
    return None


def _shape(key: str, expected: Answer) -> str:
    return f"shape {expected.arrays[key].shape}" if key in expected.arrays else expected.kinds[key]


def _aspect(difference: Difference, part: str) -> str:
    return stage_of(part) if difference.aspect in ("values", "text") else difference.aspect


def _sentence(part: str, key: str, difference: Difference) -> str:
    name = key[len(part) + 1 :]
    if difference.aspect == "text":
        return f"{part}: {name}: expected {difference.expected!r}, got {difference.got!r}"
    if difference.aspect != "values":
        return f"{part}: {difference.aspect} of {name}: expected {difference.expected}, got {difference.got}"
    place = f"[{', '.join(map(str, difference.index))}]" if difference.index else ""
    return f"{part}: {name}{place} is the first to differ: expected {difference.expected}, got {difference.got}"


def describe_error(error: dict) -> str:
    """One sentence on an exception: what, where.

    Args:
        error: A recorded exception.
    """
    place = f" ({error['file']}, line {error['line']})" if error["file"] else ""
    message = " ".join(error["message"].split())[:300]
    part = f"{error['part']}: " if error["part"] not in ("import", "call") else ""
    if error["type"] == "BdbQuit":
        return f"{part}a breakpoint stops it{place}; a check has nobody to talk to: remove the breakpoint"
    return f"{part}{error['type']}: {message}{place}" if message else f"{part}{error['type']}{place}"


def points_of(parts: dict[str, int], outcome: Outcome) -> int:
    """The sum of the points of the passed parts; a part without points guards those of the part before it.

    Args:
        parts: Points by part.
        outcome: What was judged.
    """
    earned: list[int] = []
    for part, points in parts.items():
        if points:
            earned.append(points if outcome.parts[part] else 0)
        elif earned and outcome.parts[part] is False:
            earned[-1] = 0
    return sum(earned)
