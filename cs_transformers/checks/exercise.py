"""What an exercise and a notebook of the course are, and the names that exercises may not call."""

from __future__ import annotations

from dataclasses import dataclass, field

TORCH_ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.MultiheadAttention",
    "torch.nn.Transformer",
    "torch.nn.TransformerEncoder",
    "torch.nn.TransformerDecoder",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoderLayer",
)
AUTOGRAD = (
    "torch.Tensor.backward",
    "torch.autograd.grad",
    "torch.autograd.backward",
    "torch.func.grad",
    "torch.func.vjp",
)


@dataclass(frozen=True)
class Notebook:
    """One notebook of the course.

    Args:
        number: ``01``.
        name: ``01_attention``, the file's stem.
        definitions: File of its check functions in ``definitions/``.
    """

    number: str
    name: str
    definitions: str


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Args:
        id: ``1.6``; never used again for another exercise.
        symbol: What the student writes, as the verdict names it.
        file: Where in the package; empty for a text.
        lines: Lines of the reference, about.
        minutes: Time a student needs, about.
        parts: Points by part of the check, in the order of the stages.
        needs: Exercises that must be passed before this one can run.
        forbidden: Names that the answer may not call: dotted ones of torch, bare ones of the course.
        rubric: Points by question of its text, given by a person.
        seconds: Wall-clock limit of its check.
        scoring: Name of the check that judges, in a process without the answer, what the answer made: weights, inputs.
        inputs: Name of the check that makes arrays for the answer and, unseen by it, for the scoring.
    """

    id: str
    symbol: str
    file: str
    lines: int
    minutes: int
    parts: dict[str, int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = TORCH_ATTENTION
    rubric: dict[str, int] = field(default_factory=dict)
    seconds: float = 20.0
    scoring: str = ""
    inputs: str = ""

    @property
    def notebook(self) -> str:
        """Number of its notebook, ``01``."""
        return self.id.partition(".")[0].zfill(2)

    @property
    def points(self) -> int:
        """All points, those of the text included."""
        return sum(self.parts.values()) + sum(self.rubric.values())
