"""What a check says: a state, points, and sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

STATES = (
    "passed", "partly", "wrong", "not attempted", "forbidden call", "stopped", "blocked", "awaiting review",
    "given", "later",
)  # fmt: skip


@dataclass
class Verdict:
    """The result of one exercise.

    Args:
        id: Exercise, ``1.6``.
        symbol: What the student writes, ``MultiHeadAttention.forward``.
        state: One of ``STATES``.
        points: Points earned by code; a text earns its points from a person.
        out_of: Points that code can earn here.
        lines: Sentences below the verdict: where it fails, the diagnosis, what to do.
        stage: First stage that fails, or empty.
        diagnosis: Known mistakes that reproduce exactly these numbers; empty when none does.
        parts: Whether each part passed; None for those that were not judged.
        review: Points that a person gives for the text of this exercise.
        output: The beginning of what the student's code printed.
        detail: Why it was stopped, what blocks it.
    """

    id: str
    symbol: str
    state: str
    points: int = 0
    out_of: int = 0
    lines: list[str] = field(default_factory=list)
    stage: str = ""
    diagnosis: list[str] = field(default_factory=list)
    parts: dict[str, bool | None] = field(default_factory=dict)
    review: int = 0
    output: str = ""
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything that code can show has been shown."""
        return self.state == "passed"

    def line(self) -> str:
        """The verdict in one line, the same on every machine."""
        state = f"{self.state} {self.detail}" if self.state == "blocked" else self.state
        if self.out_of == 0:
            return f"{self.id} {self.symbol}: {state}"
        text = f"{self.id} {self.symbol}: {state} ({self.points} of {self.out_of} points)"
        return text + (f", {self.review} more for the text, awaiting review" if self.review else "")

    def __str__(self) -> str:
        return "\n".join([self.line(), *(f"  {line}" for line in self.lines)])
