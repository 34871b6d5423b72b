"""Efficient attention: the exact result in less memory, or a close one in less time.

Letters: N batch, T target (query) length, S source (key) length, H heads, K head width, B keys of one block,
M features, R rank. A mask or ``key_mask`` says True where a query may look, as everywhere in this course.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .attention import attention_scores, scaled_dot_product_attention
from .errors import check_count, check_probability, check_same_kind, check_shape, check_tensor, explain
from .masks import check_attention_mask, check_key_mask

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

SoftmaxState = tuple[Tensor, Tensor, Tensor]
LinearState = tuple[Tensor, Tensor]

# --- exact, in blocks


def online_softmax_step(state: SoftmaxState, scores: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> SoftmaxState:
    """Fold one more block of keys into a softmax that does not know how many are still to come.

    With m the largest score so far, l the sum of e^(score - m) and o the sum of e^(score - m) value: a block may raise
    m to m'; then l and o shrink by e^(m - m') and the block's own terms are added. After the last block, o / l is
    softmax(scores) value.

    Args:
        state: What the earlier blocks left: o (N, H, T, K), m (N, H, T, 1) and l (N, H, T, 1). Before the first block
            they are 0, -inf and 0.
        scores: (N, H, T, B) scores of the block, -inf where a query may not look.
        value: (N, H, B, K) values of the block.
        dropout_p: Probability with which a weight is dropped on its way to a value; the sum l counts all of them.

    Returns:
        The new o, m and l. A query that has seen nothing yet keeps 0, -inf and 0.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit, or ``dropout_p`` is no probability.

    Example:
        >>> state = torch.zeros(1, 1, 1, 1), torch.full((1, 1, 1, 1), -torch.inf), torch.zeros(1, 1, 1, 1)
        >>> for score in (0.0, 3.0):
        ...     state = online_softmax_step(state, torch.full((1, 1, 1, 1), score), torch.ones(1, 1, 1, 1))
        >>> [round(part.item(), 2) for part in state]
        [1.05, 3.0, 1.05]

    Source:
        Milakov and Gimelshein 2018, algorithm 3, arXiv:1805.02867; Dao et al. 2022, section 3.1, arXiv:2205.14135.
    """
    mixed, top, total = _check_state(state, scores, value)
    check_probability("online_softmax_step", "dropout_p", dropout_p)
    # Exercise 10.1: the new maximum, the weights of the block, the factor by which the old sums shrink, the two new
    # sums (about 6 lines; amax with keepdim, torch.maximum, exp, @). Where all scores so far are -inf, so is the
    # maximum, and -inf - (-inf) is NaN: subtract 0 there. F.dropout acts on the weights that meet the values alone.
    ### BEGIN SOLUTION 10.1
    new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))  # (N, H, T, 1)
    shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
    weights = (scores - shift).exp()  # (N, H, T, B)
    shrink = (top - shift).exp()  # (N, H, T, 1)
    mixed = shrink * mixed + F.dropout(weights, dropout_p) @ value  # (N, H, T, K)
    return mixed, new_top, shrink * total + weights.sum(dim=-1, keepdim=True)
    ### END SOLUTION 10.1


def chunked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    key_mask: Tensor | None = None,
    causal: bool = False,
    chunk_size: int = 256,
    dropout_p: float = 0.0,
) -> Tensor:
    """Compute attention block by block, without ever holding all T x S scores: exact, with O(T + S) memory.

    In training each block of queries is computed once more on the way back instead of being kept.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K), of any width.
        mask: 0/1, nonzero or True where a query may look, as (T, S), (N, T, S), (N, 1, T, S), (N, H, T, S) or
            (N, 1, 1, S). None: everywhere.
        key_mask: (N, S), nonzero or True = a real token.
        causal: Whether queries look at the past and themselves only; costs no mask, and blocks of the future are
            skipped. With more keys than queries the queries are the last tokens.
        chunk_size: Queries and keys of one block.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.

    Returns:
        (N, H, T, K), what ``scaled_dot_product_attention`` returns. A query that may look at nothing gets 0.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or masks do not fit, or a number is out of its range.

    Example:
        >>> q, k = torch.randn(1, 2, 50, 8), torch.randn(1, 2, 70, 8)
        >>> torch.allclose(chunked_attention(q, k, k, chunk_size=16), scaled_dot_product_attention(q, k, k), atol=1e-5)
        True

    Source:
        Rabe and Staats 2021, arXiv:2112.05682; Dao et al. 2022, algorithm 1, arXiv:2205.14135.
    """
    who = "chunked_attention"
    N, H, T, S = check_heads(who, query, key, value)
    check_count(who, "chunk_size", chunk_size)
    check_probability(who, "dropout_p", dropout_p)
    if mask is not None:
        mask = check_attention_mask(mask, (N, H, T, S), who=who).to(query.device)
    if key_mask is not None:
        key_mask = check_key_mask(key_mask, N, S, who=who).to(query.device)
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    parts = []
    for start, part in zip(range(0, T, chunk_size), query.split(chunk_size, dim=-2), strict=False):
        rows = slice(start, start + part.shape[-2])
        end = min(S, rows.stop + S - T) if causal else S  # keys behind it lie in the future of all these queries
        blocks = [slice(first, min(first + chunk_size, end)) for first in range(0, max(end, 0), chunk_size)]
        allowed = [_allowed(mask, key_mask, rows, block) for block in blocks]
        if causal:
            pairs = zip(allowed, blocks, strict=True)
            allowed = [_past(open_, rows, block, S - T, query.device) for open_, block in pairs]
        call = partial(_attend_rows, blocks=blocks, allowed=allowed, dropout_p=dropout_p)
        parts.append(_Recomputed.apply(call, part, key, value) if keep else call(part, key, value))
    return torch.cat(parts, dim=-2) if parts else value.new_zeros(N, H, 0, value.shape[-1])  # (N, H, T, K)


class _Recomputed(torch.autograd.Function):
    """A call whose steps are not kept for the way back, but made again there.

    Unlike torch's checkpoint without reentrance, nothing at all is recorded on the way there: thousands of small nodes
    between the blocks would tear the heap into pieces that no block fits into.
    """

    @staticmethod
    def forward(ctx: Any, call: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        ctx.call, ctx.state = call, _random_state(query)
        ctx.save_for_backward(query, key, value)
        kind = query.device.type
        known = torch.amp.is_autocast_available(kind)
        ctx.autocast = (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) if known else None
        return call(query, key, value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        inputs = [x.detach().requires_grad_(want) for x, want in zip(ctx.saved_tensors, wanted, strict=True)]
        devices = [inputs[0].device] if inputs[0].is_cuda else []
        autocast = nullcontext() if ctx.autocast is None else torch.autocast(*ctx.autocast)
        with torch.random.fork_rng(devices=devices), torch.enable_grad(), autocast:
            _set_random_state(inputs[0], ctx.state)
            out = ctx.call(*inputs)
        if not out.requires_grad:  # no key was in sight
            return None, None, None, None
        found = iter(torch.autograd.grad(out, [x for x in inputs if x.requires_grad], grad))
        return None, *(next(found) if want else None for want in wanted)


def _random_state(x: Tensor) -> Tensor:
    return torch.cuda.get_rng_state(x.device) if x.is_cuda else torch.get_rng_state()


def _set_random_state(x: Tensor, state: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.set_rng_state(state, x.device)
    else:
        torch.set_rng_state(state)


def _attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    blocks: list[slice],
    allowed: list[Tensor | None],
    dropout_p: float,
) -> Tensor:
    dtype = torch.promote_types(query.dtype, torch.float32)  # sums of many terms need more digits than half precision
    top = torch.full((*query.shape[:-1], 1), -torch.inf, dtype=dtype, device=query.device)
    mixed = top.new_zeros(*query.shape[:-1], value.shape[-1])
    state: SoftmaxState = (mixed, top, torch.zeros_like(top))
    lengths = [block.stop - block.start for block in blocks]
    seen = sum(lengths)
    pairs = zip(key[..., :seen, :].split(lengths, -2), value[..., :seen, :].split(lengths, -2), allowed, strict=True)
    for block_key, block_value, visible in pairs:
        scores = attention_scores(query, block_key).to(dtype)  # (N, H, rows, B)
        if visible is not None:
            scores = scores.masked_fill(~visible, -torch.inf)
        state = online_softmax_step(state, scores, block_value.to(dtype), dropout_p=dropout_p)
    mixed, _, total = state
    return _divided(mixed, total).to(value.dtype)


def _allowed(mask: Tensor | None, key_mask: Tensor | None, rows: slice, block: slice) -> Tensor | None:
    """The part of both masks that one block of queries and keys needs, broadcastable to (N, H, rows, B), or None."""
    allowed = None
    if mask is not None:
        allowed = mask[..., rows if mask.shape[-2] > 1 else slice(None), block]
    if key_mask is not None:
        real = key_mask[:, None, None, block]
        allowed = real if allowed is None else allowed & real
    return allowed


def _past(allowed: Tensor | None, rows: slice, block: slice, offset: int, device: torch.device) -> Tensor | None:
    """Block the future too; a block that lies in the past of all these queries stays as it is."""
    if block.stop - 1 <= rows.start + offset:
        return allowed
    reach = torch.arange(rows.start, rows.stop, device=device).unsqueeze(-1) + offset
    past = torch.arange(block.start, block.stop, device=device) <= reach  # (rows, B)
    return past if allowed is None else allowed & past


# --- linear: the softmax becomes a product of features


def positive_features(x: Tensor) -> Tensor:
    """Map queries and keys to features that are positive, so that their products can serve as weights.

    elu(x) + 1: x + 1 for positive entries, e^x for negative ones.

    Args:
        x: Any shape.

    Returns:
        The shape of ``x``, positive throughout.

    Raises:
        TypeError: If ``x`` is no floating tensor.

    Example:
        >>> positive_features(torch.tensor([0.0, 2.0]))
        tensor([1., 3.])

    Source:
        Katharopoulos et al. 2020, equation 7, arXiv:2006.16236.
    """
    check_tensor("positive_features", "x", x)
    # Exercise 10.2, first half: elu(x) + 1 (about 1 line; F.elu).
    ### BEGIN SOLUTION 10.2 positive_features
    return F.elu(x) + 1
    ### END SOLUTION 10.2 positive_features


def linear_attention(query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Attend with weights that are products of features: sum the keys' side once, and let every query read it.

    Q (K^T V) / (Q sum(K)), where Q and K are features. The order of the products is the whole trick: K^T V has M x K
    numbers, however many tokens there are, where Q K^T has T x S.

    Args:
        query: (N, H, T, M) features of the queries, not negative.
        key: (N, H, S, M) features of the keys, not negative.
        value: (N, H, S, K).
        key_mask: (N, S), nonzero or True = a real token.

    Returns:
        (N, H, T, K), each row a weighted mean of values; 0 where no key has any weight.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit.

    Example:
        >>> features = torch.tensor([[[[1.0], [3.0]]]])
        >>> linear_attention(features, features, torch.tensor([[[[0.0], [4.0]]]])).flatten()
        tensor([3., 3.])

    Source:
        Katharopoulos et al. 2020, equations 4 to 6, arXiv:2006.16236.
    """
    check_heads("linear_attention", query, key, value, width="M")
    key = _without_padding("linear_attention", key, key_mask)
    # Exercise 10.2, second half: the sum of all key-value products, the sum of all keys, what each query reads from
    # both, and their quotient (about 3 lines; transpose, @, sum). Where no key has any weight both are 0: divide by 1
    # there.
    ### BEGIN SOLUTION 10.2 linear_attention
    context = key.transpose(-2, -1) @ value  # (N, H, M, K)
    total = query @ key.sum(dim=-2).unsqueeze(-1)  # (N, H, T, 1)
    return (query @ context) / total.masked_fill(total == 0, 1.0)  # (N, H, T, K)
    ### END SOLUTION 10.2 linear_attention


def linear_attention_step(state: LinearState, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, LinearState]:
    """Read one token after the other: causal linear attention is a recurrent network with a memory of fixed size.

    C_t = C_(t-1) + k_t v_t^T; z_t = z_(t-1) + k_t; out_t = q_t C_t / (q_t z_t). The token sees itself.

    Args:
        state: C (N, H, M, K) and z (N, H, M), what the past left; zeros before the first token.
        query: (N, H, M) features of the new token's query, not negative.
        key: (N, H, M) features of its key, not negative; zeros for padding.
        value: (N, H, K) its value.

    Returns:
        (N, H, K) what the token reads, 0 where no key had any weight so far, and the new state.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit.

    Example:
        >>> state, one = (torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1)), torch.ones(1, 1, 1)
        >>> for value in (2.0, 4.0):
        ...     out, state = linear_attention_step(state, one, one, value * one)
        >>> out.item()
        3.0

    Source:
        Katharopoulos et al. 2020, section 3.4, arXiv:2006.16236.
    """
    context, total = _check_linear_state(state, query, key, value)
    # Exercise 10.3: add k v^T to the one sum and k to the other, then read both with q (about 5 lines; unsqueeze, @,
    # sum). As in 10.2, divide by 1 where there is nothing to divide by. Return the pair (out, (C, z)).
    ### BEGIN SOLUTION 10.3
    context = context + key.unsqueeze(-1) * value.unsqueeze(-2)  # (N, H, M, K)
    total = total + key  # (N, H, M)
    weight = (query * total).sum(dim=-1, keepdim=True)  # (N, H, 1)
    out = (query.unsqueeze(-2) @ context).squeeze(-2) / weight.masked_fill(weight == 0, 1.0)  # (N, H, K)
    return out, (context, total)
    ### END SOLUTION 10.3


def linear_state(query: Tensor, value: Tensor) -> LinearState:
    """Make the empty memory that ``linear_attention_step`` starts from.

    Args:
        query: (N, H, ..., M) features, for sizes, dtype and device.
        value: (N, H, ..., K) values.

    Returns:
        C (N, H, M, K) and z (N, H, M), all 0.

    Example:
        >>> [part.shape for part in linear_state(torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 3))]
        [torch.Size([1, 2, 4, 3]), torch.Size([1, 2, 4])]
    """
    N, H = query.shape[:2]
    return query.new_zeros(N, H, query.shape[-1], value.shape[-1]), query.new_zeros(N, H, query.shape[-1])


def recurrent_linear_attention(query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Attend to the past token by token, by ``linear_attention_step``: what happens when a model generates.

    Args:
        query: (N, H, T, M) features of the queries, not negative.
        key: (N, H, T, M) features of the keys, not negative.
        value: (N, H, T, K).
        key_mask: (N, T), nonzero or True = a real token.

    Returns:
        (N, H, T, K).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit.

    Example:
        >>> recurrent_linear_attention(*[torch.ones(1, 2, 5, 4)] * 3).shape
        torch.Size([1, 2, 5, 4])
    """
    who = "recurrent_linear_attention"
    _check_causal(who, check_heads(who, query, key, value, width="M"))
    key = _without_padding(who, key, key_mask)
    state, rows = linear_state(query, value), []
    for q, k, v in zip(query.unbind(-2), key.unbind(-2), value.unbind(-2), strict=True):
        out, state = linear_attention_step(state, q, k, v)  # (N, H, K)
        rows.append(out)
    return torch.stack(rows, dim=-2) if rows else torch.zeros_like(value)


def causal_linear_attention(
    query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None, *, chunk_size: int = 64
) -> Tensor:
    """Attend to the past with all tokens of a block at once: the same result as the steps, made for training.

    Inside a block the weights are a small square; everything before it comes from the recurrent state.

    Args:
        query: (N, H, T, M) features of the queries, not negative.
        key: (N, H, T, M) features of the keys, not negative.
        value: (N, H, T, K).
        key_mask: (N, T), nonzero or True = a real token.
        chunk_size: Tokens of one block.

    Returns:
        (N, H, T, K).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit, or ``chunk_size`` is below 1.

    Example:
        >>> q, k, v = (torch.rand(1, 2, 50, 8) for _ in range(3))
        >>> torch.allclose(causal_linear_attention(q, k, v), recurrent_linear_attention(q, k, v), atol=1e-5)
        True
    """
    who = "causal_linear_attention"
    _check_causal(who, check_heads(who, query, key, value, width="M"))
    check_count(who, "chunk_size", chunk_size)
    key = _without_padding(who, key, key_mask)
    (context, total), rows = linear_state(query, value), []
    blocks = zip(*(x.split(chunk_size, dim=-2) for x in (query, key, value)), strict=True)
    for q, k, v in blocks:
        inside = (q @ k.transpose(-2, -1)).tril()  # (N, H, B, B)
        weight = inside.sum(dim=-1, keepdim=True) + q @ total.unsqueeze(-1)  # (N, H, B, 1)
        rows.append(_divided(inside @ v + q @ context, weight))
        context = context + k.transpose(-2, -1) @ v  # (N, H, M, K)
        total = total + k.sum(dim=-2)  # (N, H, M)
    return torch.cat(rows, dim=-2)


# --- random features: the softmax itself, on average


def orthogonal_projection(num_features: int, width: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw Gaussian directions that stand at right angles to each other: they cover space better than free ones.

    Args:
        num_features: Number of directions M; beyond ``width`` further blocks are drawn.
        width: Width K of the vectors that will be projected.
        generator: Source of randomness; torch's own by default.

    Returns:
        (M, K) float64 on the CPU; each row is distributed as a standard normal vector.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is not positive.

    Example:
        >>> directions = orthogonal_projection(3, 8)
        >>> bool(((directions @ directions.T).triu(1).abs() < 1e-9).all())
        True

    Source:
        Choromanski et al. 2021, section 2.4, arXiv:2009.14794.
    """
    check_count("orthogonal_projection", "num_features", num_features)
    check_count("orthogonal_projection", "width", width)
    blocks = []
    for first in range(0, num_features, width):
        normal = torch.randn(width, width, generator=generator, dtype=torch.float64, device="cpu")
        q, r = torch.linalg.qr(normal)
        blocks.append((q * r.diagonal().sign()).T[: num_features - first])  # the signs make q uniform over rotations
    lengths = torch.randn(num_features, width, generator=generator, dtype=torch.float64, device="cpu").norm(dim=1)
    return lengths.unsqueeze(1) * torch.cat(blocks)  # (M, K)


def log_random_features(x: Tensor, projection: Tensor) -> Tensor:
    """Return logarithms of positive features whose products are e^(q.k / sqrt(K)) on average.

    w.x' - |x'|^2 / 2 - log(M) / 2 with x' = x / K^(1/4), for each of the M directions w.

    Args:
        x: (N, H, T, K) queries or keys.
        projection: (M, K) directions, see ``orthogonal_projection``.

    Returns:
        (N, H, T, M).

    Raises:
        TypeError: If an argument is no floating tensor.
        ValueError: If the widths differ.

    Example:
        >>> log_random_features(torch.zeros(1, 1, 2, 3), torch.ones(1, 3)).shape
        torch.Size([1, 1, 2, 1])

    Source:
        Choromanski et al. 2021, lemma 1, arXiv:2009.14794.
    """
    check_tensor("log_random_features", "x", x)
    check_tensor("log_random_features", "projection", projection)
    check_shape("log_random_features", "projection", projection, "draw it for this width", M=None, K=x.shape[-1])
    scaled = x / x.shape[-1] ** 0.25
    return scaled @ projection.to(x).T - scaled.square().sum(-1, keepdim=True) / 2 - math.log(len(projection)) / 2


def random_features(
    query: Tensor, key: Tensor, projection: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys into positive random features for ``linear_attention``.

    A factor per query, and one for all keys of a head, cancels in the quotient: it is chosen so that nothing overflows.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        projection: (M, K) directions, the same for both.
        key_mask: (N, S), nonzero or True = a real token; padding gets features of 0 and no say in the keys' factor.

    Returns:
        (N, H, T, M) and (N, H, S, M), positive, the largest of each row or head 1.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the widths differ, or the mask does not fit.

    Example:
        >>> q, k = random_features(torch.randn(1, 2, 5, 4), torch.randn(1, 2, 7, 4), torch.randn(6, 4))
        >>> q.shape, k.shape
        (torch.Size([1, 2, 5, 6]), torch.Size([1, 2, 7, 6]))

    Source:
        Choromanski et al. 2021, section 2.3, arXiv:2009.14794.
    """
    logs_query, logs_key = log_random_features(query, projection), log_random_features(key, projection)
    if key_mask is not None:
        real = check_key_mask(key_mask, key.shape[0], key.shape[-2], who="random_features").to(key.device)
        logs_key = logs_key.masked_fill(~real[:, None, :, None], -torch.inf)
    of_rows = logs_query.amax(dim=-1, keepdim=True).detach()
    if key.shape[-2] == 0:
        return (logs_query - of_rows).exp(), logs_key.exp()
    of_heads = logs_key.amax(dim=(-2, -1), keepdim=True).detach()
    of_heads = of_heads.masked_fill(of_heads == -torch.inf, 0.0)  # nothing but padding
    return (logs_query - of_rows).exp(), (logs_key - of_heads).exp()


# --- low rank: fewer keys


def low_rank_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_projection: Tensor,
    value_projection: Tensor,
    key_mask: Tensor | None = None,
    *,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attend to R learned mixtures of the keys instead of all S keys.

    softmax(Q (E^T K)^T / sqrt(K)) F^T V. Every mixture draws on all tokens, the future included: it cannot be causal.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K).
        key_projection: (L, R), E: a row for each of at most L positions; shorter inputs use the first S rows.
        value_projection: (L, R), F.
        key_mask: (N, S), nonzero or True = a real token; padding enters no mixture.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.

    Returns:
        (N, H, T, K).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit, or there are more than L keys.

    Example:
        >>> q, k, e = torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 7, 4), torch.zeros(8, 3)
        >>> low_rank_attention(q, k, k, e, e).shape
        torch.Size([1, 2, 5, 4])

    Source:
        Wang et al. 2020, equation 7, arXiv:2006.04768.
    """
    who = "low_rank_attention"
    S = check_heads(who, query, key, value)[-1]
    check_tensor(who, "key_projection", key_projection)
    check_shape(who, "key_projection", key_projection, "give one row for each position", L=None, R=None)
    L, R = key_projection.shape
    check_shape(who, "value_projection", value_projection, "make both of one shape", L=L, R=R)
    if S > L:
        fix = f"cut the input to {L} tokens, or build the projections for more"
        raise ValueError(explain(who, "key", f"at most {L} tokens long, the length of the projections", S, fix))
    key, value = (_without_padding(who, x, key_mask) for x in (key, value))
    short_key = key_projection[:S].T @ key  # (N, H, R, K)
    short_value = value_projection[:S].T @ value  # (N, H, R, K)
    return scaled_dot_product_attention(query, short_key, short_value, dropout_p=dropout_p)


# --- which one grows how fast


def fit_exponent(lengths: Sequence[float], costs: Sequence[float]) -> float:
    """Fit costs = c * length^p and return p: the slope of a straight line through the points on log axes.

    The line is the one of least squares. p = 1 is linear growth, p = 2 quadratic growth.

    Args:
        lengths: At least two different positive numbers of tokens.
        costs: What each of them cost (seconds, bytes), positive.

    Returns:
        The exponent p.

    Raises:
        ValueError: If there are too few points, unequally many, or one is not a positive finite number.

    Example:
        >>> round(fit_exponent([100, 200, 400], [5.0, 20.0, 80.0]), 6)
        2.0
    """
    x, y = _check_points(lengths, costs)
    # Exercise 10.5: take logarithms, subtract the mean of each, and divide the sum of their products by the sum of
    # the squares (about 3 lines). `x` and `y` are float64 tensors; return a plain number with .item().
    ### BEGIN SOLUTION 10.5
    x, y = x.log(), y.log()
    x = x - x.mean()
    return ((x * (y - y.mean())).sum() / x.square().sum()).item()
    ### END SOLUTION 10.5


def check_heads(who: str, query: Tensor, key: Tensor, value: Tensor, *, width: str = "K") -> tuple[int, int, int, int]:
    """Require queries, keys and values of fitting shapes.

    Args:
        who: The function the caller used, for the message.
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, any width).
        width: Letter of the last axis of queries and keys, for the message.

    Returns:
        N, H, T and S.

    Raises:
        TypeError: If one is no floating tensor, or the dtypes differ.
        ValueError: If the shapes do not fit, or a device differs.

    Example:
        >>> check_heads("demo", torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 4))
        (1, 2, 3, 5)
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(who, name, tensor)
    check_shape(who, "query", query, "split the heads first", **{"N": None, "H": None, "T": None, width: None})
    N, H, T, K = query.shape
    fix = "keys need the batch, heads and width of the queries"
    check_shape(who, "key", key, fix, **{"N": N, "H": H, "S": None, width: K})
    S = key.shape[2]
    check_shape(who, "value", value, "values need one row for every key", N=N, H=H, S=S, V=None)
    check_same_kind(who, "query", query=query, key=key, value=value)
    return N, H, T, S


def _divided(mixed: Tensor, weight: Tensor) -> Tensor:
    return mixed / weight.masked_fill(weight == 0, 1.0)


def _without_padding(who: str, x: Tensor, key_mask: Tensor | None) -> Tensor:
    if key_mask is None:
        return x
    real = check_key_mask(key_mask, x.shape[0], x.shape[-2], who=who).to(x.device)
    return x.masked_fill(~real[:, None, :, None], 0.0)


def _check_causal(who: str, sizes: tuple[int, int, int, int]) -> None:
    if sizes[2] != sizes[3]:
        fix = "the past is defined within one sequence"
        raise ValueError(explain(who, "key", f"as long as query, {sizes[2]} tokens", sizes[3], fix))


def _check_state(state: SoftmaxState, scores: Tensor, value: Tensor) -> SoftmaxState:
    who = "online_softmax_step"
    if not isinstance(state, tuple | list) or len(state) != 3:
        got = f"{type(state).__name__}" + (f" of {len(state)}" if isinstance(state, tuple | list) else "")
        raise TypeError(explain(who, "state", "the three tensors (mixed, top, total)", got, "start with 0, -inf, 0"))
    mixed, top, total = state
    for name, tensor in (("scores", scores), ("value", value), ("mixed", mixed), ("top", top), ("total", total)):
        check_tensor(who, name, tensor)
    check_shape(who, "scores", scores, N=None, H=None, T=None, B=None)
    N, H, T, B = scores.shape
    check_shape(who, "value", value, "values need one row for every key of the block", N=N, H=H, B=B, K=None)
    fix = "start with 0, -inf and 0, one row per query"
    check_shape(who, "mixed", mixed, fix, N=N, H=H, T=T, K=value.shape[-1])
    check_shape(who, "top", top, fix, N=N, H=H, T=T, one=1)
    check_shape(who, "total", total, fix, N=N, H=H, T=T, one=1)
    if B == 0:
        raise ValueError(explain(who, "scores", "of one key or more", tuple(scores.shape), "leave out empty blocks"))
    return mixed, top, total


def _check_linear_state(state: LinearState, query: Tensor, key: Tensor, value: Tensor) -> LinearState:
    who = "linear_attention_step"
    if not isinstance(state, tuple | list) or len(state) != 2:
        got = f"{type(state).__name__}" + (f" of {len(state)}" if isinstance(state, tuple | list) else "")
        raise TypeError(explain(who, "state", "the two tensors (context, total)", got, "start with linear_state"))
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(who, name, tensor)
    check_shape(who, "query", query, "pass one token, without an axis of length", N=None, H=None, M=None)
    N, H, M = query.shape
    check_shape(who, "key", key, "query and key need one width", N=N, H=H, M=M)
    check_shape(who, "value", value, "pass one token, without an axis of length", N=N, H=H, K=None)
    check_shape(who, "context", state[0], "start with linear_state", N=N, H=H, M=M, K=value.shape[-1])
    check_shape(who, "total", state[1], "start with linear_state", N=N, H=H, M=M)
    return state[0], state[1]


def _check_points(lengths: Sequence[float], costs: Sequence[float]) -> tuple[Tensor, Tensor]:
    who = "fit_exponent"
    x, y = (torch.as_tensor(list(values), dtype=torch.float64, device="cpu") for values in (lengths, costs))
    if x.dim() != 1 or x.shape != y.shape:
        raise ValueError(explain(who, "costs", f"{len(x)} numbers, one per length", len(y), "measure every length"))
    for name, values in (("lengths", x), ("costs", y)):
        if not bool(((values > 0) & values.isfinite()).all()):
            fix = "a logarithm needs positive numbers"
            raise ValueError(explain(who, name, "positive throughout and finite", values.tolist(), fix))
    if len(x.unique()) < 2:
        raise ValueError(explain(who, "lengths", "two different lengths or more", list(lengths), "measure another"))
    return x, y
