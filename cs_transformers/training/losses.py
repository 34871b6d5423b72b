"""Losses of the tasks, in the form that the loop takes: a function of model and batch."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.captioning import caption_loss
from cs_transformers.errors import explain
from cs_transformers.training.evaluation import LossFunction


def classification_loss(label_smoothing: float = 0.0) -> LossFunction:
    """Make the loss of a classifier: cross entropy, with the accuracy beside it.

    Args:
        label_smoothing: Share of the target that is spread evenly over all classes, in [0, 1).

    Returns:
        Function of a model that scores (N, C, H, W) images and a batch (images, labels (N,)).

    Raises:
        ValueError: If ``label_smoothing`` lies outside [0, 1).

    Example:
        >>> import torch
        >>> loss, metrics = classification_loss()(nn.Identity(), (torch.eye(3), torch.tensor([0, 1, 0])))
        >>> round(metrics["accuracy"].item(), 3)
        0.667
    """
    _check_smoothing("classification_loss", label_smoothing)

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        inputs, labels = batch
        scores = model(inputs)  # (N, classes)
        accuracy = (scores.detach().argmax(dim=-1) == labels).float().mean()
        return F.cross_entropy(scores, labels, label_smoothing=label_smoothing), {"accuracy": accuracy}

    return loss


def captioning_loss(null: int, label_smoothing: float = 0.0) -> LossFunction:
    """Make the loss of a captioner: cross entropy of the next word, the mean over the real words of the batch.

    A batch without a real word has a loss of 0 and zero gradients.

    Args:
        null: Id of the padding word, which is never a target.
        label_smoothing: Share of the target that is spread evenly over all words, in [0, 1).

    Returns:
        Function of a model that scores (N, T, V) from features and captions (N, T), and a batch (features, captions).

    Raises:
        ValueError: If ``label_smoothing`` lies outside [0, 1).
    """
    _check_smoothing("captioning_loss", label_smoothing)

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        features, captions = batch
        scores = model(features, captions[:, :-1])  # (N, T, V)
        targets = captions[:, 1:]  # (N, T): the word after each one read
        real = targets != null
        right = ((scores.detach().argmax(dim=-1) == targets) & real).sum() / real.sum().clamp(min=1)
        return caption_loss(scores, captions, null=null, label_smoothing=label_smoothing), {"token_accuracy": right}

    return loss


def _check_smoothing(who: str, label_smoothing: float) -> None:
    if not 0 <= label_smoothing < 1:
        fix = "pass 0.0 for none, 0.1 as is usual"
        raise ValueError(explain(who, "label_smoothing", "a share in [0, 1)", label_smoothing, fix))
