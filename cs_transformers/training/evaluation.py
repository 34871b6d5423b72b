"""Means over batches, and models in eval mode: what the loop and the recipes measure with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from cs_transformers.training.batches import batch_length, read_batches, to_device

LossFunction = Callable[[nn.Module, Any], "Tensor | tuple[Tensor, dict[str, Any]]"]


class Totals:
    """Running means of a loss and its metrics, weighted by the number of examples.

    Args:
        sums: Weighted sums so far.
        examples: Number of examples so far.

    Example:
        >>> totals = Totals()
        >>> totals.add(1.0, {}, 3)
        >>> totals.add(2.0, {}, 1)
        >>> totals.means()
        {'loss': 1.25}
    """

    def __init__(self, sums: dict[str, float] | None = None, examples: int = 0) -> None:
        self.sums, self.examples = dict(sums or {}), examples

    def add(self, loss: Tensor | float, metrics: dict[str, Any], examples: int) -> None:
        """Count a batch.

        Args:
            loss: Its mean loss.
            metrics: Its mean metrics.
            examples: Its number of examples.
        """
        for name, value in {"loss": loss, **metrics}.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value) * examples
        self.examples += examples

    def means(self) -> dict[str, float]:
        """Means over the examples so far."""
        return {name: total / self.examples for name, total in self.sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything as plain values, for a checkpoint."""
        return {"sums": dict(self.sums), "examples": self.examples}


def split_loss(result: Any) -> tuple[Tensor, dict[str, Any]]:
    """Take apart what a loss function returned.

    Args:
        result: Scalar tensor, or a pair of it and a dict of metrics.

    Returns:
        Loss and metrics, the latter empty where there are none.

    Raises:
        TypeError: If it is something else.
    """
    loss, metrics = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not isinstance(metrics, dict):
        got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(
            f"fit: expected the loss function to return one number as a tensor, alone or with a dict of metrics, "
            f"got {got}; take the mean over the batch."
        )
    return loss, metrics


def mean_loss(
    model: nn.Module,
    data: Dataset,
    loss: LossFunction,
    device: torch.device,
    batch_size: int,
    collate: Callable[[list], Any] | None = None,
) -> dict[str, float]:
    """Compute mean loss and metrics over a data set in eval mode, without gradients.

    Args:
        model: Model, which goes back to its mode.
        data: Examples.
        loss: Function of model and batch.
        device: Where the model is.
        batch_size: Examples at a time.
        collate: How a list of examples becomes a batch, or None.

    Returns:
        "loss" and the metrics of the loss function.
    """
    totals, order = Totals(), list(torch.arange(len(data)).split(batch_size))
    with eval_mode(model), torch.no_grad():
        for batch in read_batches(data, order, collate=collate):
            totals.add(*split_loss(loss(model, to_device(batch, device))), batch_length(batch))
    return totals.means()


@contextlib.contextmanager
def keeping_mode(model: nn.Module) -> Iterator[None]:
    """Put every module of a model back to its mode, train or eval, behind a block of code.

    Args:
        model: Model that the block may switch.

    Returns:
        A context manager.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch a model to eval mode for a block of code.

    Args:
        model: Model; every module goes back to the mode it had.

    Returns:
        A context manager.
    """
    with keeping_mode(model):
        model.eval()
        yield
