"""Which attention for which purpose: the methods by name, a table to choose from, and what each of them costs.

Letters: N batch, T length, D model width, H heads, K head width.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from .attention import MultiHeadAttention, scaled_dot_product_attention
from .efficient_layers import (
    BucketedAttention,
    ChunkedAttention,
    EfficientAttention,
    LinearAttention,
    LowRankAttention,
    RandomFeatureAttention,
    ShiftedWindowAttention,
    SlidingWindowAttention,
)
from .errors import check_choice, check_count


@dataclass(frozen=True)
class Method:
    """One way to attend.

    Args:
        layer: The class that does it.
        exact: Whether the result is that of softmax attention.
        lengths: Which lengths one layer takes.
        time: Operations of one head, up to a constant.
        memory: Numbers held at once, up to a constant, what has the size of the input aside.
        use: What it is made for.
    """

    layer: type[nn.Module]
    exact: str
    lengths: str
    time: str
    memory: str
    use: str

    @property
    def causal(self) -> str:
        """Whether it can hide the future."""
        return "yes" if getattr(self.layer, "can_be_causal", True) else "no"

    @property
    def masks(self) -> str:
        """Which masks it honours."""
        if getattr(self.layer, "any_mask", True):
            return "any"
        return "padding" if getattr(self.layer, "padding", True) else "none"

    @property
    def memory_allowed(self) -> str:
        """Whether it can look at another sequence."""
        return "yes" if getattr(self.layer, "any_memory", True) else "no"


METHODS = {
    "explicit": Method(MultiHeadAttention, "yes", "any", "T^2 K", "T^2", "short inputs; a look at the weights"),
    "chunked": Method(
        ChunkedAttention, "yes", "any", "T^2 K", "B^2, T B in training", "the default where memory is short"
    ),
    "linear": Method(
        LinearAttention, "no: other weights", "any", "T K^2", "K^2", "very long inputs; generation with a fixed memory"
    ),
    "random features": Method(
        RandomFeatureAttention, "on average", "any", "T M K", "T M", "long inputs, global, close to the softmax"
    ),
    "low rank": Method(LowRankAttention, "no: mixed keys", "up to max_len", "T R K", "T R", "encoders of one length"),
    "sliding window": Method(
        SlidingWindowAttention, "within the window", "any", "T w K", "T w", "long texts and signals, local context"
    ),
    "shifted window": Method(
        ShiftedWindowAttention, "within the window", "one grid", "T w^2 K", "T w^2", "large images"
    ),
    "buckets": Method(
        BucketedAttention, "within the bucket", "any", "T (B + log T) K", "T B", "long inputs, few keys matter to each"
    ),
}
SHORTEST = 0.02  # seconds: clocks of processor time are coarse on some systems
COLUMNS = ("method", "exact", "causal", "masks", "other memory", "lengths", "time", "memory", "made for")


def builder(name: str, **options: Any) -> Callable[[int, int, float], nn.Module]:
    """Make what ``attention=`` of a block takes: a builder of one kind of attention layer.

    Args:
        name: One of ``METHODS``.
        **options: Keywords of its layer, ``causal`` or ``window``, say.

    Returns:
        A function of (embed_dim, num_heads, dropout).

    Raises:
        ValueError: If there is no such method.

    Example:
        >>> layer = builder("sliding window", window=3)(8, 2, 0.0)
        >>> type(layer).__name__, layer.window
        ('SlidingWindowAttention', 3)
    """
    check_choice("builder", "name", name, tuple(METHODS))
    return partial(METHODS[name].layer, **options)


def chooser_table() -> str:
    """Set the methods side by side, as Markdown.

    Returns:
        A table with one row for each of ``METHODS``; in it T is the length, K the head width, B a block, M the number
        of features, R the rank, w the window.

    Example:
        >>> len(chooser_table().splitlines()) - 2 == len(METHODS)
        True
    """
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for name, one in METHODS.items():
        can = (one.exact, one.causal, one.masks, one.memory_allowed)
        rows.append((name, *can, one.lengths, one.time, one.memory, one.use))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def head_attention(name: str, width: int, **options: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Take the heart out of a layer: a function of queries, keys and values that were projected already.

    Args:
        name: One of ``METHODS``; "explicit" makes the weights of all pairs.
        width: Head width K.
        **options: Keywords of its layer.

    Returns:
        A function of query, key and value (N, H, T, K).

    Raises:
        ValueError: If there is no such method.

    Example:
        >>> x = torch.zeros(1, 2, 9, 4)
        >>> head_attention("linear", width=4)(x, x, x).shape
        torch.Size([1, 2, 9, 4])
    """
    layer = builder(name, **options)(width, 1, 0.0).eval()
    if isinstance(layer, EfficientAttention):
        return layer.attend
    return scaled_dot_product_attention


def relative_difference(approximate: Tensor, exact: Tensor) -> float:
    """Say how far a result is from the exact one: 0 for equal, 1 for as far as zero is.

    Args:
        approximate: Any shape.
        exact: The same shape.

    Returns:
        The norm of the difference over the norm of ``exact``.

    Example:
        >>> round(relative_difference(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 4.0])), 3)
        0.721
    """
    return ((approximate - exact).norm() / exact.norm()).item()


def seconds_of(call: Callable[[], Any], *, repeats: int = 3) -> float:
    """Measure how much processor time a call takes, so that other programs on the machine do not count.

    A first call, which allocates, is not counted. Short calls are made several times in a row.

    Args:
        call: What to time.
        repeats: Number of measurements; the shortest is returned.

    Returns:
        Seconds, summed over the threads of this process.

    Raises:
        ValueError: If ``repeats`` is below 1.
    """
    check_count("seconds_of", "repeats", repeats)
    call()
    count = max(1, round(SHORTEST / max(_seconds(call, 1), 1e-9)))
    return min(_seconds(call, count) for _ in range(repeats))


def _seconds(call: Callable[[], Any], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - started) / count


def operations_of(call: Callable[[], Any]) -> int:
    """Count the multiplications and additions in the matrix products of a call.

    Args:
        call: What to watch.

    Returns:
        Floating-point operations, as torch counts them: two for each pair of numbers that is multiplied and added.

    Example:
        >>> operations_of(lambda: torch.zeros(3, 4) @ torch.zeros(4, 5))
        120
    """
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def peak_bytes(call: Callable[[], Any]) -> int:
    """Count the bytes of all tensors that are alive at once while a call runs, those made before it aside.

    The count is the same on every machine. Room that a kernel takes for itself in passing is not seen.

    Args:
        call: What to watch, forward and perhaps backward.

    Returns:
        The largest sum of bytes.

    Example:
        >>> x = torch.zeros(1000)
        >>> peak_bytes(lambda: (x + 1).sum()) == 4 * (1000 + 1)
        True
    """
    with _Meter() as meter:
        call()
    return meter.peak


class _Meter(TorchDispatchMode):
    """Follows the storages that operations return, from birth to death."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made_before = {x.untyped_storage().data_ptr() for x in _tensors((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if storage in self.known or storage.data_ptr() in made_before or not storage.nbytes():
                continue
            self.known.add(storage)
            self.now += storage.nbytes()
            weakref.finalize(storage, self._freed, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return out

    def _freed(self, size: int) -> None:
        self.now -= size


def _tensors(tree: Any) -> list[Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]
