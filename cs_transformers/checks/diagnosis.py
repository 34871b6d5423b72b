"""Naming the mistake behind wrong numbers: only when a known mistake reproduces exactly these numbers, never a guess.

A mistake is kept as a fingerprint: a few fixed projections of each array it gives, and the errors it raises. An answer
bears a mistake's mark when, in every part that the mistake changes, it gives what the mistake gives. Where mistakes
touch different parts, an answer can bear two marks at once, and both are named. Where it has more wrong with it than
any known mistake, the one that reproduces its first failed part is named, if it is the only one that does.
"""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .client import Answer

OBSERVED = "observed"  # a part that gives no points: what the checks of training see beside the score
DIRECTIONS = 3
LARGEST = (
    1 << 22
)  # entries: what any check asks for has fewer; an array far too large must not cost the judge its memory
TOLERANCE = 1e-6  # of the sum of magnitudes: the same mistake on another machine, written another way, is within it


@dataclass
class Fingerprint:
    """The condensed outputs of one mistake, in the parts where it differs from the reference.

    Args:
        name: File name of the mistake.
        diagnosis: The sentence for the student.
        prints: Projections of each recorded array, by part and key.
        errors: Type and message of the exception that ends a part, by part.
        numeric: Whether some recorded number differs from the reference's, not errors alone.
    """

    name: str
    diagnosis: str
    prints: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    numeric: bool = False

    @property
    def parts(self) -> set[str]:
        """Parts in which the mistake differs from the reference."""
        return set(self.prints) | set(self.errors)

    def to_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Fingerprint:
        """The fingerprint in a record that ``to_record`` made."""
        return cls(**record)


def take(name: str, diagnosis: str, expected: Answer, answer: Answer, parts: list[str]) -> Fingerprint:
    """The fingerprint of a mistake's answer, against the reference's.

    Args:
        name: File name of the mistake.
        diagnosis: Its sentence.
        expected: What the reference recorded.
        answer: What the mistake recorded.
        parts: Parts of the check.
    """
    fingerprint = Fingerprint(name, diagnosis)
    for part in parts:
        error, printed = _error(part, answer), _prints(part, answer)
        if error is not None:
            fingerprint.errors[part] = error
        right = _prints(part, expected)
        if not _agree(right, printed) or error is not None:
            fingerprint.prints[part] = printed
            fingerprint.numeric |= any(
                not _agree({key: right[key]}, {key: printed[key]}) for key in printed if key in right
            )
    return fingerprint


def diagnose(
    fingerprints: list[Fingerprint], answer: Answer, failed: list[str], judged: list[str] | None = None
) -> list[Fingerprint]:
    """The mistakes whose mark an answer bears, at most one for each failed part.

    Where no mark fits in all parts, one that fits in all judged parts is named, unless two do: later parts mix what
    earlier ones keep apart, so two mistakes at once leave their own marks only there. Where none does so either, one
    that fits in the first failed part and would fail in no part that is right is named, unless two do.

    Args:
        fingerprints: Known mistakes.
        answer: The answer.
        failed: Parts that failed, in order.
        judged: Parts that were judged, those of later stages left out; default: all.
    """
    found: list[Fingerprint] = []
    explained: set[str] = set()
    for part in failed:
        if part in explained:
            continue
        candidates = [mistake for mistake in fingerprints if part in mistake.parts]
        marked = [mistake for mistake in candidates if bears(mistake, answer)]
        if not marked and judged is not None:
            marked = _only([mistake for mistake in candidates if bears(mistake, answer, judged)])
        if not marked and judged is not None and part == failed[0]:
            right = set(judged) - {*failed, OBSERVED}
            possible = [mistake for mistake in candidates if not mistake.parts & right]
            found += _only([mistake for mistake in possible if bears(mistake, answer, [part], exact=True)])
            explained.add(part)
        if marked:
            widest = max(marked, key=lambda mistake: len(mistake.parts))
            found.append(widest)
            explained |= widest.parts
    return found


def _only(marked: list[Fingerprint]) -> list[Fingerprint]:
    return marked if len(marked) == 1 else []


def bears(mistake: Fingerprint, answer: Answer, parts: list[str] | None = None, *, exact: bool = False) -> bool:
    """Whether an answer gives, in every part that a mistake changes, what the mistake gives.

    Args:
        mistake: A known mistake.
        answer: The answer.
        parts: Parts to look at; default: all.
        exact: Whether errors must agree in their text even where numbers speak for the mistake.
    """
    numbers = mistake.numeric and not exact
    for part in mistake.parts if parts is None else mistake.parts & set(parts):
        wanted, got = mistake.errors.get(part), _error(part, answer)
        if (wanted is None) != (got is None):
            return False
        # The text of torch's messages changes between versions: it decides only where no numbers do.
        if wanted is not None and wanted[: 1 if numbers else 2] != got[: 1 if numbers else 2]:
            return False
        if not _agree(mistake.prints.get(part, {}), _prints(part, answer)):
            return False
    return bool(mistake.parts)


def project(key: str, array: np.ndarray) -> list[Any]:
    """A few numbers that stand for an array: shape, how many entries are not finite, size, projections.

    Of an array beyond any that a check asks for, the shape alone.

    Args:
        key: Part and name of the array; it fixes the directions.
        array: The array.
    """
    if array.size > LARGEST:
        return [list(np.shape(array)), [0, 0, 0], 0.0, *[0.0] * DIRECTIONS]
    values = np.asarray(np.real(array), dtype=np.float64).ravel()
    special = [int(np.isnan(values).sum()), int(np.isposinf(values).sum()), int(np.isneginf(values).sum())]
    values = np.where(np.isfinite(values), values, 0.0)
    directions = np.random.RandomState(zlib.crc32(key.encode())).uniform(-1, 1, (DIRECTIONS, values.size))
    return [list(np.shape(array)), special, float(np.abs(values).sum()), *(float(x) for x in directions @ values)]


def _prints(part: str, answer: Answer) -> dict[str, list[Any]]:
    prints: dict[str, list[Any]] = {}
    for key, kind in answer.kinds.items():
        if key.startswith(part + "/"):
            plain = [kind, answer.texts.get(key, "")]
            prints[key] = plain + (project(key, answer.arrays[key]) if key in answer.arrays else [])
    return prints


def _agree(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> bool:
    if one.keys() != other.keys():
        return False
    for key, left in one.items():
        right = other[key]
        if left[:4] != right[:4] or len(left) != len(right):
            return False
        if len(left) > 4:
            size = max(abs(left[4]), abs(right[4]), 1e-9)
            if any(abs(a - b) > TOLERANCE * size for a, b in zip(left[4:], right[4:], strict=True)):
                return False
    return True


def _error(part: str, answer: Answer) -> list[str] | None:
    for error in answer.errors:
        if error["part"] in (part, "import", "call"):
            return [error["type"], " ".join(error["message"].split())]
    return None
