"""The last look at what a student will read: a sentence that carries a line of a solution is withheld.

Nothing that a child prints reaches a student, but an exception's message or a name may still hold what its process
could read: the solved exercises around it. This looks for solution lines word by word; it is a second fence, not the
first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from cs_transformers.checks import EXERCISES, tree
from cs_transformers.checks.markers import HELPERS

SHORTEST = (
    22  # characters without blanks: `return self.proj(context)` tells something, `optimizer.zero_grad()` does not
)
WITHHELD = "(withheld: the message repeats lines of the course's own code)"


@functools.cache
def solution_lines() -> frozenset[str]:
    """Every line of a solution that is long enough to tell something, without its blanks."""
    files = sorted({exercise.file for exercise in EXERCISES.values() if exercise.file})
    lines = set()
    for regions in tree.read_answers(tree.PACKAGE, files).regions.values():
        bodies = [region.body for region in regions.values() if region.exercise != HELPERS]
        lines |= {_bare(re.sub(r"\s+#.*", "", line)) for body in bodies for line in body.splitlines()}
    return frozenset(line for line in lines if len(line) >= SHORTEST and not line.startswith("#"))


def screen(sentences: Iterable[str]) -> list[str]:
    """The sentences, with each that repeats a line of a solution replaced.

    Args:
        sentences: What a student would read.
    """
    return [WITHHELD if leaks(sentence) else sentence for sentence in sentences]


def leaks(text: str) -> bool:
    """Whether a text repeats a line of a solution.

    Args:
        text: What a student would read.
    """
    bare = _bare(text)
    return any(line in bare for line in solution_lines())


def _bare(text: str) -> str:
    # What repr() puts in does not hide a line: escaped line ends and quotes go with the blanks.
    return re.sub(r"\\[nrt]|[\s\\]+", "", text)
