"""Attention in buckets: tokens that point in similar directions are hashed together and look at each other only.

Letters: N batch, T length, H heads, K head width, R rounds of hashing, B tokens of one chunk.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import attention_scores
from .efficient import check_heads
from .errors import check_count, check_probability, check_shape, check_tensor, explain
from .masks import check_key_mask


def draw_rotations(rounds: int, width: int, num_buckets: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw the random directions that decide which bucket a vector falls into.

    Args:
        rounds: Number of hashes R; with more of them fewer similar pairs are missed.
        width: Head width K.
        num_buckets: Number of buckets, an even number: each direction has one and its opposite another.
        generator: Source of randomness; torch's own by default.

    Returns:
        (R, K, num_buckets / 2) on the CPU.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is not positive, or ``num_buckets`` odd.

    Example:
        >>> draw_rotations(2, 8, 4).shape
        torch.Size([2, 8, 2])
    """
    for name, number in (("rounds", rounds), ("width", width), ("num_buckets", num_buckets)):
        check_count("draw_rotations", name, number)
    if num_buckets % 2:
        fix = f"use {num_buckets + 1}"
        raise ValueError(explain("draw_rotations", "num_buckets", "an even number", num_buckets, fix))
    return torch.randn(rounds, width, num_buckets // 2, generator=generator, device="cpu")


def hash_buckets(x: Tensor, rotations: Tensor) -> Tensor:
    """Find the bucket of each vector: the direction, or its opposite, that it comes closest to.

    argmax([x R; -x R]). The length of a vector does not matter.

    Args:
        x: (N, H, T, K).
        rotations: (R, K, num_buckets / 2), see ``draw_rotations``.

    Returns:
        (R, N, H, T) int64 from 0 to num_buckets - 1.

    Raises:
        TypeError: If an argument is no floating tensor.
        ValueError: If the widths differ.

    Example:
        >>> hash_buckets(torch.tensor([[[[2.0], [-1.0]]]]), torch.ones(1, 1, 1)).flatten()
        tensor([0, 1])

    Source:
        Andoni et al. 2015, arXiv:1509.02897; Kitaev et al. 2020, section 2, arXiv:2001.04451.
    """
    check_tensor("hash_buckets", "x", x)
    check_tensor("hash_buckets", "rotations", rotations)
    check_shape("hash_buckets", "x", x, "split the heads first", N=None, H=None, T=None, K=None)
    check_shape("hash_buckets", "rotations", rotations, "draw them for this width", R=None, K=x.shape[-1], half=None)
    turned = torch.einsum("nhtk,rkb->rnhtb", x, rotations.to(x))
    return torch.cat((turned, -turned), dim=-1).argmax(dim=-1)  # (R, N, H, T)


def bucket_attention(
    query: Tensor,
    value: Tensor,
    rotations: Tensor,
    *,
    chunk_size: int = 64,
    key_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attend within buckets: time and memory O(T x chunk_size) for each round, and sorting.

    Queries serve as keys too, at unit length, so that a token and its match fall into one bucket. Tokens are sorted by
    bucket and cut into chunks; a token looks at those of its bucket in its own chunk and in the chunk before, at
    itself only where there is nobody else. The rounds are joined by the sums of their exponentials, so a pair that
    meets in two rounds counts twice.

    Args:
        query: (N, H, T, K) queries, and keys before they are scaled.
        value: (N, H, T, K).
        rotations: (R, K, num_buckets / 2), one set for each round.
        chunk_size: Tokens of one chunk. T or more: every token of a bucket is seen.
        key_mask: (N, T), nonzero or True = a real token.
        causal: Whether a token looks at the past and itself only. Where a bucket is longer than its chunks, later
            tokens still decide where the chunks end, and so which part of the past is seen.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.

    Returns:
        (N, H, T, K).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit, or a number is out of its range.

    Example:
        >>> x = torch.randn(1, 2, 20, 8)
        >>> bucket_attention(x, x, draw_rotations(2, 8, 4), chunk_size=8).shape
        torch.Size([1, 2, 20, 8])

    Source:
        Kitaev et al. 2020, section 2, arXiv:2001.04451.
    """
    who = "bucket_attention"
    N, _, T, _ = check_heads(who, query, query, value)
    check_count(who, "chunk_size", chunk_size)
    check_probability(who, "dropout_p", dropout_p)
    real = torch.ones(1, T, dtype=torch.bool, device=query.device)
    if key_mask is not None:
        real = check_key_mask(key_mask, N, T, who=who).to(query.device)
    buckets = hash_buckets(query, rotations)  # (R, N, H, T)
    buckets = buckets.masked_fill(
        ~real.unsqueeze(1), 2 * rotations.shape[-1]
    )  # padding gets the last bucket for itself
    if T == 0:
        return value.clone()
    key = F.normalize(query, dim=-1)
    rounds = [_one_round(query, key, value, real, bucket, chunk_size, causal, dropout_p) for bucket in buckets]
    mixed, sizes = (torch.stack(parts) for parts in zip(*rounds, strict=True))  # (R, N, H, T, K or 1)
    top = sizes.amax(dim=0, keepdim=True)
    shares = (sizes - top.masked_fill(top == -torch.inf, 0.0)).exp()
    total = shares.sum(dim=0)
    return (shares * mixed).sum(dim=0) / total.masked_fill(total == 0, 1.0)  # (N, H, T, K)


def _one_round(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real: Tensor,
    bucket: Tensor,
    chunk_size: int,
    causal: bool,
    dropout_p: float,
) -> tuple[Tensor, Tensor]:
    """Mix values within buckets: (N, H, T, K), and the logarithm of the sum of exponentials (N, H, T, 1)."""
    T = query.shape[-2]
    order = bucket.argsort(dim=-1, stable=True)  # by bucket, and by place within it
    size = min(chunk_size, T)
    sort = [x.gather(-2, order.unsqueeze(-1).expand_as(x)) for x in (query, key, value)]
    q, k, v = (_in_chunks(x, size) for x in sort)  # (N, H, chunks, B, K)
    marks = (bucket.gather(-1, order), order, real.unsqueeze(1).expand_as(order).gather(-1, order))
    its, place, kept = (_in_chunks(x.unsqueeze(-1), size, fill) for x, fill in zip(marks, (-1, T, 0), strict=True))
    k, v = _with_chunk_before(k), _with_chunk_before(v)  # (N, H, chunks, 2 B, K)
    other, seen = (_with_chunk_before(x, -1).transpose(-2, -1) for x in (its, place))  # (N, H, chunks, 1, 2 B)
    visible = (its == other) & _with_chunk_before(kept).transpose(-2, -1).bool()
    if causal:
        visible = visible & (seen <= place)
    own = seen == place
    others = visible & ~own
    visible = others | (visible & own & ~others.any(dim=-1, keepdim=True))  # (N, H, chunks, B, 2 B)
    flat = attention_scores(q.flatten(0, 1), k.flatten(0, 1)).view(visible.shape)
    scores = flat.masked_fill(~visible, -torch.inf)
    dead = ~visible.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(dead, 0.0).softmax(dim=-1).masked_fill(dead, 0.0)
    size_of = scores.masked_fill(dead, 0.0).logsumexp(dim=-1, keepdim=True).masked_fill(dead, -torch.inf)
    mixed = F.dropout(weights, dropout_p) @ v  # (N, H, chunks, B, K)
    back = order.argsort(dim=-1).unsqueeze(-1)  # (N, H, T, 1)
    mixed, size_of = (x.flatten(2, 3)[..., :T, :] for x in (mixed, size_of))
    return mixed.gather(-2, back.expand_as(mixed)), size_of.gather(-2, back)


def _in_chunks(x: Tensor, size: int, fill: int = 0) -> Tensor:
    missing = -x.shape[-2] % size
    return F.pad(x, (0, 0, 0, missing), value=fill).unflatten(-2, (-1, size))  # (N, H, chunks, B, ...)


def _with_chunk_before(x: Tensor, fill: int = 0) -> Tensor:
    """Set the chunk before each chunk in front of it; the first has none and gets a filling nobody sees."""
    before = F.pad(x[:, :, :-1], (0, 0, 0, 0, 1, 0), value=fill)
    return torch.cat((before, x), dim=3)  # (N, H, chunks, 2 B, ...)
