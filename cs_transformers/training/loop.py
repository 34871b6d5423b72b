"""The training loop, the same for every task: what differs is the loss function.

One update is: read a batch, compute the loss and its gradients, clip them, step every optimizer and its schedule.
Around it stand evaluation on validation data, the choice of the best weights, and checkpoints from which an interrupted
training goes on to exactly the weights that an uninterrupted one reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from cs_transformers.training.checkpoints import own_rng
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction, mean_loss
from cs_transformers.training.history import History
from cs_transformers.training.placement import Here
from cs_transformers.training.run import Run, Scheduled


def fit(
    model: nn.Module,
    train: Dataset,
    val: Dataset | None = None,
    *,
    loss: LossFunction,
    config: FitConfig | None = None,
    optimizers: Sequence[Scheduled] | None = None,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    transform: Callable[[Any, torch.Generator], Any] | None = None,
    collate: Callable[[list], Any] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> History:
    """Train a model in place and return the course of the training.

    Args:
        model: Model to train; it ends with the best weights by validation, or the last where there is none.
        train: Training examples, map style; where they have an attribute ``bucket_lengths``, one length for each, a
            batch holds examples of like length.
        val: Validation examples, to watch and to choose by; never the test set.
        loss: Function of model and batch that gives the mean loss over the batch, alone or with a dict of metrics.
        config: Settings; None takes the defaults of :class:`FitConfig`.
        optimizers: Pairs of an optimizer and its schedule (a function of the step that gives a factor, or a torch
            scheduler); None builds them from the settings.
        evaluate: Function of the model in eval mode that gives more figures at every evaluation.
        transform: Augmentation of a training batch on its device: batch and generator to batch.
        collate: How a list of examples becomes a batch, or None for torch's own way.
        folder: Where checkpoints and the history are kept; None keeps nothing.
        resume: Go on from the last checkpoint in ``folder``; where there is none yet, start.
        on_record: Called with the history after every evaluation, for instance to plot it.

    Returns:
        The history. Its rows also stand in ``folder/history.csv``.

    Raises:
        ValueError: If the data is empty, the folder holds another training, or the settings need what is not given.
        FloatingPointError: If the loss is no longer finite.

    Example:
        >>> inputs = torch.arange(6.0).reshape(6, 1)
        >>> data = torch.utils.data.TensorDataset(inputs, 2 * inputs)
        >>> squares = lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1])
        >>> history = fit(nn.Linear(1, 1), data, loss=squares, config=FitConfig(steps=300, learning_rate=0.1))
        >>> history.losses[-1] < 0.01 < history.losses[0]
        True
    """
    config = config or FitConfig()
    if len(train) == 0:
        raise ValueError("fit: expected training examples, got an empty data set; check how it was made.")
    if val is not None and len(val) == 0:
        raise ValueError("fit: expected validation examples, got an empty data set; leave val out to do without.")
    if config.patience is not None and val is None and evaluate is None:
        raise ValueError("fit: expected val or evaluate with patience, got neither; there is nothing to stop by.")
    if resume and folder is None:
        raise ValueError("fit: expected a folder with resume=True, got None; say where the checkpoints are.")
    run = Run(model, train, val, loss, config, evaluate=evaluate, transform=transform, collate=collate)
    run.prepare(optimizers, Path(folder) if folder is not None else None, on_record)
    with own_rng(run.where.device, config.seed + run.where.rank):
        run.restore(resume)
        run.train()
    return run.history


def evaluate_loss(
    model: nn.Module,
    data: Dataset,
    *,
    loss: LossFunction,
    batch_size: int = 256,
    collate: Callable[[list], Any] | None = None,
) -> dict[str, float]:
    """Compute the mean loss and metrics over a data set, without training on it.

    Args:
        model: Model; it is switched to eval mode and back.
        data: Examples.
        loss: Same function as for training.
        batch_size: Examples at a time.
        collate: How a list of examples becomes a batch, or None for torch's own way.

    Returns:
        "loss" and the metrics of the loss function, weighted by the number of examples.

    Raises:
        ValueError: If the data is empty.
    """
    if len(data) == 0:
        raise ValueError("evaluate_loss: expected examples, got an empty data set; check how it was made.")
    return mean_loss(model, data, loss, Here(model).device, batch_size, collate)
