"""The settings of the training loop, checked when they are written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

from cs_transformers.training.optimizers import OPTIMIZERS
from cs_transformers.training.schedules import SCHEDULES

PRECISIONS = ("no", "fp16", "bf16")
OPTIONAL = ("steps", "evaluate_every", "checkpoint_every", "patience", "clip_norm", "ema_decay")  # may be None


@dataclass(kw_only=True, frozen=True)
class FitConfig:
    """Everything about a training that is a number or a name; the model, the data and the loss are arguments of `fit`.

    Args:
        epochs: Passes over the training data; ignored where ``steps`` is given.
        steps: Number of updates, or None to count in epochs.
        batch_size: Examples per update, over all processes together.
        replacement: Draw every batch anew from all examples instead of passing over a shuffled list.
        drop_last: Leave out the last batch of an epoch where it is smaller.
        optimizer: "adamw", "adam" (decay inside the gradient, as Stanford's solver has it) or "muon".
        learning_rate: Peak rate of Adam.
        muon_rate: Peak rate of Muon, which takes the layers' matrices where ``optimizer`` is "muon".
        weight_decay: Decay of matrices; biases, norms, embeddings and positions have none with "adamw" and "muon".
        betas: Adam's decay rates of the two moments.
        schedule: "cosine", "linear", "one-cycle" or "constant", see :mod:`cs_transformers.training.schedules`.
        warmup: Steps of the rise to the peak rate; a number between 0 and 1 is a share of all steps.
        floor: Share of the peak rate that is left at the end.
        clip_norm: Largest norm of the whole gradient, or None.
        ema_decay: Decay of a running mean of the weights, which is then evaluated and returned; None for none.
        evaluate_every: Steps between two evaluations, or None for once per epoch; the last step always has one.
        checkpoint_every: Steps between two checkpoints, or None for one per evaluation.
        monitor: Figure that chooses the best weights, "val_loss" or one of the metrics; less is better for names that
            end in "loss" or "error". The figure must come from validation data.
        keep_best: Give the model the best weights of the run at its end instead of the last, where data to choose by
            is given.
        patience: Stop after this many evaluations without an improvement of ``monitor``; None never stops early.
        seed: Start of the data order, the augmentation and the dropout.
        num_workers: Processes that read examples; 0 reads in this one.
        progress: Show a progress bar; None shows one in a terminal only.
        accelerate: Let the package accelerate place model, data and processes.
        precision: "no", "fp16" or "bf16" mixed precision; needs ``accelerate``.

    Raises:
        TypeError: If a setting is no number where one is expected, or no whole one.
        ValueError: If a setting lies outside its range or contradicts another.

    Example:
        >>> FitConfig(steps=200, batch_size=25, learning_rate=1e-3).total_steps(examples=50)
        200
    """

    epochs: int = 10
    steps: int | None = None
    batch_size: int = 64
    replacement: bool = False
    drop_last: bool = False
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    muon_rate: float = 5e-3
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    schedule: str = "cosine"
    warmup: float = 0
    floor: float = 0.01
    clip_norm: float | None = 1.0
    ema_decay: float | None = None
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    monitor: str = "val_loss"
    keep_best: bool = True
    patience: int | None = None
    seed: int = 231
    num_workers: int = 0
    progress: bool | None = None
    accelerate: bool = False
    precision: str = "no"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "steps", "evaluate_every", "checkpoint_every", "patience"):
            self._require_number(name, Integral, lambda value: value >= 1, "a whole number of at least 1")
        for name in ("seed", "num_workers"):
            self._require_number(name, Integral, lambda value: value >= 0, "a whole number of 0 or more")
        for name in ("weight_decay", "warmup"):
            self._require_number(name, Real, lambda value: value >= 0, "0 or more")
        for name in ("learning_rate", "muon_rate"):
            self._require_number(name, Real, lambda value: value > 0, "a rate above 0")
        self._require_number("floor", Real, lambda value: 0 < value <= 1, "a share in (0, 1]")
        self._require_number("clip_norm", Real, lambda value: value > 0, "a norm above 0, or None")
        self._require_number("ema_decay", Real, lambda value: 0 < value < 1, "a number between 0 and 1, or None")
        holds = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        self._require("betas", holds, "two numbers in [0, 1)")
        for name, choices in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            self._require(name, getattr(self, name) in choices, f"one of {', '.join(choices)}")
        self._require("monitor", not self.monitor.startswith("train"), "a figure of the validation data")
        if self.precision != "no" and not self.accelerate:
            raise ValueError(
                f"FitConfig: expected accelerate=True with precision={self.precision!r}, got False; "
                "turn accelerate on or leave the precision at 'no'."
            )

    def _require_number(self, name: str, kind: type, holds: Callable[[Any], bool], expected: str) -> None:
        value = getattr(self, name)
        if value is None and name in OPTIONAL:
            return
        if isinstance(value, bool) or not isinstance(value, kind):
            raise TypeError(
                f"FitConfig: expected {name} to be {expected}, got {value!r} ({type(value).__name__}); change {name}."
            )
        self._require(name, holds(value), expected)

    def _require(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise ValueError(
                f"FitConfig: expected {name} to be {expected}, got {getattr(self, name)!r}; change {name}."
            )

    def steps_per_epoch(self, examples: int) -> int:
        """Count the updates of one pass over the data.

        Args:
            examples: Number of training examples.

        Returns:
            Number of batches, at least 1.
        """
        whole, rest = divmod(examples, self.batch_size)
        return max(1, whole + (1 if rest and not (self.drop_last or self.replacement) else 0))

    def total_steps(self, examples: int) -> int:
        """Count the updates of the whole training.

        Args:
            examples: Number of training examples.

        Returns:
            ``steps`` where it is given, else the batches of all epochs.
        """
        return self.steps if self.steps is not None else self.epochs * self.steps_per_epoch(examples)

    def warmup_steps(self, total: int) -> int:
        """Count the steps of the rise.

        Args:
            total: Number of updates of the whole training.

        Returns:
            ``warmup`` itself, or its share of the updates.
        """
        return round(self.warmup * total) if self.warmup < 1 else int(self.warmup)

    def as_dict(self) -> dict[str, Any]:
        """Settings that decide the weights, as plain values: what a resumed run must have in common with the first."""
        leave_out = ("progress", "num_workers", "checkpoint_every")
        return {name: value for name, value in asdict(self).items() if name not in leave_out}
