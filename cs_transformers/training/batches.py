"""The order of the data: a function of the seed and the epoch alone, so that any step can be found again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from cs_transformers.training.config import FitConfig

ORDER, WORKERS, AUGMENTATION = 1, 2, 3  # the streams that one seed is split into
POOL = 20  # batches that are sorted by length together: more leave less padding, and less chance in who meets whom


def generator_for(*key: int) -> torch.Generator:
    """Make a generator that depends on all numbers of a key and resembles that of no other key.

    Args:
        key: Numbers of 0 or more, for instance seed, stream and epoch.

    Returns:
        A generator on the CPU.

    Example:
        >>> bool(torch.rand(1, generator=generator_for(1, 2)) == torch.rand(1, generator=generator_for(1, 2)))
        True
    """
    seed = np.random.SeedSequence(key).generate_state(2)
    return torch.Generator().manual_seed(int(seed[0]) << 31 ^ int(seed[1]))


def epoch_order(examples: int, config: FitConfig, epoch: int, lengths: Tensor | None = None) -> list[Tensor]:
    """Say which examples each batch of an epoch holds.

    Args:
        examples: Number of training examples.
        config: Batch size, seed and way of drawing.
        epoch: Number of the epoch, from 0.
        lengths: (examples,) lengths, where batches shall hold examples of like length to need little padding: out of
            every ``POOL`` batches of the shuffled list, sorted and cut anew; the batches are shuffled again.

    Returns:
        One tensor of indices per update.

    Example:
        >>> order = epoch_order(5, FitConfig(batch_size=2), epoch=0)
        >>> [len(indices) for indices in order], sorted(torch.cat(order).tolist())
        ([2, 2, 1], [0, 1, 2, 3, 4])
    """
    steps, generator = config.steps_per_epoch(examples), generator_for(config.seed, ORDER, epoch)
    if config.replacement:
        return list(torch.randint(examples, (steps, config.batch_size), generator=generator))
    order = torch.randperm(examples, generator=generator)
    if lengths is None:
        return list(order.split(config.batch_size))[:steps]
    pools = [pool[lengths[pool].argsort(stable=True)] for pool in order.split(POOL * config.batch_size)]
    cut = [batch for pool in pools for batch in pool.split(config.batch_size)][:steps]
    return [cut[place] for place in torch.randperm(len(cut), generator=generator).tolist()]


def share_of(indices: Tensor, rank: int, world: int) -> Tensor:
    """Give one process its share of a batch, never an empty one: all processes have to take every step together.

    Args:
        indices: (N,) indices of the batch.
        rank: Number of the process, from 0.
        world: Number of processes.

    Returns:
        Every ``world``-th index; where there are more processes than examples, some share an example.

    Example:
        >>> [share_of(torch.tensor([7, 8, 9]), rank, 2).tolist() for rank in range(2)]
        [[7, 9], [8]]
    """
    return indices[rank % len(indices) :: world]


def read_batches(
    data: Dataset,
    order: list[Tensor],
    *,
    collate: Callable[[list], Any] | None = None,
    num_workers: int = 0,
    generator: torch.Generator | None = None,
) -> Iterator[Any]:
    """Read the batches of a list of indices, in its order.

    Args:
        data: Map-style data set. A TensorDataset, or one with a method ``batch(indices)``, is read a batch at a time;
            everything else goes through a DataLoader.
        order: One tensor of indices per batch.
        collate: How a list of examples becomes a batch, or None for torch's own way.
        num_workers: Processes that read examples.
        generator: Seed of the workers' random streams.

    Yields:
        One batch per tensor of indices.
    """
    whole = data.__getitem__ if isinstance(data, TensorDataset) else getattr(data, "batch", None)
    if whole is not None and collate is None and num_workers == 0:
        yield from map(whole, order)
        return
    yield from DataLoader(
        data,
        batch_sampler=[indices.tolist() for indices in order],
        collate_fn=collate,
        num_workers=num_workers,
        generator=generator or torch.Generator(),
    )


def to_device(batch: Any, device: torch.device | str) -> Any:
    """Move every tensor of a nested batch.

    Args:
        batch: Tensor, or tuple, list or dict of batches; everything else stays what it is.
        device: Where to.

    Returns:
        The batch in its own form.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(item, device) for key, item in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(item, device) for item in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(to_device(item, device) for item in batch)
    return batch


def batch_length(batch: Any) -> int:
    """Count the examples of a batch: the length of its first tensor or list.

    Args:
        batch: Tensor, or tuple, list or dict of batches.

    Returns:
        Number of examples.

    Example:
        >>> batch_length({"images": torch.zeros(3, 2), "labels": torch.zeros(3)})
        3
    """
    if isinstance(batch, Tensor):
        return len(batch)
    first = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return batch_length(first) if isinstance(first, (Tensor, dict, tuple, list)) else len(batch)
