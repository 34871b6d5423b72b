"""Memory of a decoder: keys and values of the tokens already read, so that a step computes only the new token.

Letters: N batch, H heads, S length so far, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .errors import check_count, check_same_kind, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


class KeyValueCache:
    """Keys and values of one attention layer, split into heads.

    The absolute position of the next token is ``length``, read before the cache grows.

    Attributes:
        key: (N, H, S, K), or None while empty.
        value: (N, H, S, K), or None while empty.

    Example:
        >>> cache = KeyValueCache()
        >>> cache.length
        0
    """

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of tokens remembered, S."""
        return 0 if self.key is None else self.key.shape[2]

    def reorder(self, index: Tensor) -> None:
        """Let row i continue from old row ``index[i]``, as beam search does after ranking.

        Args:
            index: (N',) whole numbers, rows to keep; may repeat and may change the batch size.

        Raises:
            TypeError: If ``index`` is no integer tensor.
            ValueError: If ``index`` has not one axis.
        """
        _check_index(index)
        if self.key is not None and self.value is not None:
            index = index.to(self.key.device)
            self.key = self.key.index_select(0, index)  # (N', H, S, K)
            self.value = self.value.index_select(0, index)  # (N', H, S, K)


class DecoderLayerCache:
    """What one decoder layer remembers: its own past tokens, and the memory projected once.

    Attributes:
        self_attn: Grows by every token read.
        cross_attn: Filled by the first step, then only read.

    Example:
        >>> DecoderLayerCache().length
        0
    """

    def __init__(self) -> None:
        self.self_attn = KeyValueCache()
        self.cross_attn = KeyValueCache()

    @property
    def length(self) -> int:
        """Number of target tokens read."""
        return self.self_attn.length

    def reorder(self, index: Tensor) -> None:
        """Let row i continue from old row ``index[i]``.

        Args:
            index: (N',) whole numbers, rows to keep.

        Raises:
            TypeError: If ``index`` is no integer tensor.
            ValueError: If ``index`` has not one axis.
        """
        self.self_attn.reorder(index)
        self.cross_attn.reorder(index)


class DecoderCache:
    """The caches of a stack of decoder layers.

    Args:
        num_layers: Number of layers in the stack.

    Attributes:
        layers: One ``DecoderLayerCache`` per layer.

    Raises:
        TypeError: If ``num_layers`` is no whole number.
        ValueError: If ``num_layers`` is not positive.

    Example:
        >>> len(DecoderCache(num_layers=3).layers)
        3
    """

    def __init__(self, num_layers: int) -> None:
        check_count("DecoderCache", "num_layers", num_layers)
        self.layers = [DecoderLayerCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Number of target tokens read: the absolute position of the next one."""
        return self.layers[0].length

    def reorder(self, index: Tensor) -> None:
        """Let row i continue from old row ``index[i]``.

        Args:
            index: (N',) whole numbers, rows to keep.

        Raises:
            TypeError: If ``index`` is no integer tensor.
            ValueError: If ``index`` has not one axis.
        """
        for layer in self.layers:
            layer.reorder(index)


def extend_cache(cache: KeyValueCache, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Append new keys and values behind the remembered ones, and remember the whole.

    Args:
        cache: The cache of one attention layer; it is changed.
        key: (N, H, S', K) keys of the new tokens.
        value: (N, H, S', K) values of the new tokens.

    Returns:
        Keys and values of all tokens so far, (N, H, S + S', K) each.

    Raises:
        TypeError: If ``cache`` is no ``KeyValueCache``, key or value is no tensor, or a dtype is not the cache's.
        ValueError: If the shapes do not fit each other or the cache, or a device is not the cache's.

    Example:
        >>> cache, step = KeyValueCache(), torch.ones(1, 2, 1, 4)
        >>> _ = extend_cache(cache, step, step)
        >>> extend_cache(cache, step, step)[0].shape
        torch.Size([1, 2, 2, 4])
    """
    _check_extension(cache, key, value)
    if cache.key is not None and cache.value is not None and key.shape[2] == 0:
        return cache.key, cache.value  # a memory that was projected earlier: nothing to append, nothing to copy
    # Exercise 4.3: join the remembered keys and values with the new ones along the length, store the result in
    # cache.key and cache.value, return it (about 4 lines; torch.cat). An empty cache holds None.
    ### BEGIN SOLUTION 4.3
    if cache.key is not None:
        key = torch.cat((cache.key, key), dim=2)  # (N, H, S + S', K)
        value = torch.cat((cache.value, value), dim=2)  # (N, H, S + S', K)
    cache.key, cache.value = key, value
    return key, value
    ### END SOLUTION 4.3


def _check_extension(cache: KeyValueCache, key: Tensor, value: Tensor) -> None:
    who = "extend_cache"
    if not isinstance(cache, KeyValueCache):
        raise TypeError(explain(who, "cache", "a KeyValueCache", type(cache).__name__, "make one with KeyValueCache()"))
    check_tensor(who, "key", key)
    check_tensor(who, "value", value)
    if key.dim() != 4:
        fix = "split the heads first"
        raise ValueError(explain(who, "key", "of shape (N, H, S, K)", tuple(key.shape), fix))
    if value.shape[:3] != key.shape[:3] or value.dim() != 4:
        fix = "pass the keys and values of the same tokens"
        raise ValueError(explain(who, "value", f"of the shape of key, {tuple(key.shape)}", tuple(value.shape), fix))
    for name, new, old in (("key", key, cache.key), ("value", value, cache.value)):
        if old is None:
            continue
        batch, heads, _, width = old.shape
        if (new.shape[0], new.shape[1], new.shape[3]) != (batch, heads, width):
            expected = f"of shape (N, H, S, K) = ({batch}, {heads}, any, {width}) like the cache"
            fix = "start a new cache for another batch, or reorder this one"
            raise ValueError(explain(who, name, expected, tuple(new.shape), fix))
        check_same_kind(who, "the cache", **{"the cache": old, name: new})


def _check_index(index: Tensor) -> None:
    check_tensor("reorder", "index", index, floating=False)
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(explain("reorder", "index", "whole numbers", index.dtype, "convert it with .long()"))
    if index.dim() != 1:
        fix = "flatten the beams into the batch axis"
        raise ValueError(explain("reorder", "index", "of shape (N,)", tuple(index.shape), fix))
