"""Attention: every query looks at all keys, and takes a weighted mean of their values.

Letters: N batch, T target (query) length, S source (key) length, D model width, H heads, K = D/H head width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .cache import KeyValueCache, extend_cache
from .errors import (
    check_count,
    check_like_weights,
    check_probability,
    check_same_kind,
    check_shape,
    check_tensor,
    explain,
)
from .masks import check_attention_mask, combine_masks

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Compare every query with every key: a large score where both point the same way.

    Q K^T / sqrt(K). Without the division, the scores of wide heads spread so far that softmax picks one key only.

    Args:
        query: (N, H, T, K); the axes N and H may be missing.
        key: (N, H, S, K), as many axes as ``query``.

    Returns:
        (N, H, T, S), one score per pair.

    Raises:
        TypeError: If an argument is no floating tensor, or the dtypes differ.
        ValueError: If the shapes do not fit.

    Example:
        >>> attention_scores(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4)).shape
        torch.Size([1, 2, 3, 5])

    Source:
        Vaswani et al. 2017, equation 1, arXiv:1706.03762.
    """
    _check_heads("attention_scores", query, key)
    # Exercise 1.1: divide by the square root of the head width and multiply with the transposed key (about 2 lines;
    # transpose, @). Divide the query first: in half precision the product alone may overflow.
    ### BEGIN SOLUTION 1.1
    scaled = query / math.sqrt(query.shape[-1])
    return scaled @ key.transpose(-2, -1)  # (N, H, T, S)
    ### END SOLUTION 1.1


def attention_weights(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Turn scores into shares: each query spreads a weight of 1 over the keys it may look at.

    A query that may look at nothing gets zeros throughout, and so do its gradients.

    Args:
        scores: (N, H, T, S); the axes N and H may be missing.
        mask: 0/1, nonzero or True where a query may look, as (T, S), (N, T, S), (N, 1, T, S), (N, H, T, S) or
            (N, 1, 1, S). None: everywhere.

    Returns:
        (N, H, T, S), exactly 0 where blocked; rows sum to 1, or to 0 where all is blocked.

    Raises:
        TypeError: If an argument is no tensor.
        ValueError: If the mask does not fit, or is meant to be added to the scores.

    Example:
        >>> attention_weights(torch.zeros(2, 2), torch.tensor([[1, 0], [1, 1]]))
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])

    Source:
        Vaswani et al. 2017, sections 3.2.1 and 3.2.3, arXiv:1706.03762.
    """
    check_tensor("attention_weights", "scores", scores)
    if not 2 <= scores.dim() <= 4:
        fix = "pass one score per query and key"
        raise ValueError(explain("attention_weights", "scores", "of shape (N, H, T, S)", tuple(scores.shape), fix))
    mask = _check_mask("attention_weights", mask, tuple(scores.shape), scores.device)
    # Exercise 1.2: softmax over the keys, with weight 0 where the mask is False (about 5 lines; masked_fill, softmax).
    # `mask` is None or a bool tensor that broadcasts to the scores. Softmax over a row of -inf is NaN, and so is its
    # gradient: leave the rows that may see nothing out of the first fill, and set them to 0 at the end.
    ### BEGIN SOLUTION 1.2
    if mask is None:
        return scores.softmax(dim=-1)
    dead = ~mask.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~mask & ~dead, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(dead, 0.0)
    ### END SOLUTION 1.2


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Mix the values, each by the share its key wins.

    softmax(Q K^T / sqrt(K)) V. A key that is blocked has weight 0; a NaN in its value still spreads (0 x NaN = NaN).

    Args:
        query: (N, H, T, K); the axes N and H may be missing.
        key: (N, H, S, K), as many axes as ``query``.
        value: (N, H, S, K), of any width.
        mask: 0/1, nonzero or True where a query may look, in the forms of ``attention_weights``.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.
        need_weights: Also return the weights, as they were before dropout.

    Returns:
        (N, H, T, K), or a pair of it and the weights (N, H, T, S).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit, or ``dropout_p`` is no probability.

    Example:
        >>> q, k, v = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 5, 4), torch.ones(1, 2, 5, 4)
        >>> out, weights = scaled_dot_product_attention(q, k, v, need_weights=True)
        >>> out.shape, weights.shape
        (torch.Size([1, 2, 3, 4]), torch.Size([1, 2, 3, 5]))

    Source:
        Vaswani et al. 2017, equation 1, arXiv:1706.03762.
    """
    _check_heads("scaled_dot_product_attention", query, key, value)
    check_probability("scaled_dot_product_attention", "dropout_p", dropout_p)
    shape = (*query.shape[:-1], key.shape[-2])
    mask = _check_mask("scaled_dot_product_attention", mask, shape, query.device)
    # Exercise 1.3: weights from 1.1 and 1.2, dropout on the weights, mix the values (about 4 lines; F.dropout, @).
    # Return the weights from before the dropout where `need_weights` asks for them.
    ### BEGIN SOLUTION 1.3
    weights = attention_weights(attention_scores(query, key), mask)  # (N, H, T, S)
    out = F.dropout(weights, dropout_p) @ value  # (N, H, T, K)
    return (out, weights) if need_weights else out
    ### END SOLUTION 1.3


def attention_backward(
    grad_output: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Send a gradient back through attention without autograd.

    With P = softmax(Q K^T / sqrt(K)) and G the gradient of the output: dV = P^T G; dP = G V^T;
    dS = P * (dP - rowsum(P * dP)); dQ = dS K / sqrt(K); dK = dS^T Q / sqrt(K).

    Args:
        grad_output: (N, H, T, K), gradient of the loss by the output.
        query: (N, H, T, K); the axes N and H may be missing.
        key: (N, H, S, K), as many axes as ``query``.
        value: (N, H, S, K), of any width.
        mask: 0/1, nonzero or True where a query may look, in the forms of ``attention_weights``.

    Returns:
        Gradients by query, key and value, in their shapes.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit.

    Example:
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> dq, dk, dv = attention_backward(torch.ones(1, 2, 3, 4), q, q, q)
        >>> dv[0, 0, 0]
        tensor([1., 1., 1., 1.])

    Source:
        Dao et al. 2022, appendix B.2, arXiv:2205.14135.
    """
    _check_heads("attention_backward", query, key, value)
    check_tensor("attention_backward", "grad_output", grad_output)
    check_same_kind("attention_backward", "query", query=query, grad_output=grad_output)
    wanted = (*query.shape[:-1], value.shape[-1])
    if grad_output.shape != wanted:
        fix = "pass the gradient of the output"
        got = tuple(grad_output.shape)
        raise ValueError(explain("attention_backward", "grad_output", f"of shape (N, H, T, K) = {wanted}", got, fix))
    mask = _check_mask("attention_backward", mask, (*query.shape[:-1], key.shape[-2]), query.device)
    # Exercise 1.8: the five formulas of the docstring, in their order (about 6 lines). The mask needs no line of its
    # own: where a weight is 0, so is the gradient of its score.
    ### BEGIN SOLUTION 1.8
    weights = attention_weights(attention_scores(query, key), mask)  # (N, H, T, S)
    grad_value = weights.transpose(-2, -1) @ grad_output  # (N, H, S, K)
    grad_weights = grad_output @ value.transpose(-2, -1)  # (N, H, T, S)
    row_term = (weights * grad_weights).sum(dim=-1, keepdim=True)  # (N, H, T, 1)
    grad_scores = weights * (grad_weights - row_term) / math.sqrt(query.shape[-1])  # (N, H, T, S)
    return grad_scores @ key, grad_scores.transpose(-2, -1) @ query, grad_value
    ### END SOLUTION 1.8


def causal_mask(
    target_length: int, source_length: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """Let every token look at itself and the past, never at the future.

    With more keys than queries the queries are the last tokens, as in a decoder with a cache.

    Args:
        target_length: Number of queries T.
        source_length: Number of keys S; T by default.
        device: Where to make the mask; torch's default device by default.

    Returns:
        (T, S) bool, True where s <= t + (S - T).

    Raises:
        TypeError: If a length is no whole number.
        ValueError: If a length is not positive.

    Example:
        >>> causal_mask(2, 3).int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    source_length = target_length if source_length is None else source_length
    check_count("causal_mask", "target_length", target_length)
    check_count("causal_mask", "source_length", source_length)
    # Exercise 1.4: a lower triangle of True, made on `device` (about 1 line; torch.ones, tril and its diagonal).
    ### BEGIN SOLUTION 1.4
    shape = (target_length, source_length)
    return torch.ones(shape, dtype=torch.bool, device=device).tril(diagonal=source_length - target_length)  # (T, S)
    ### END SOLUTION 1.4


def padding_mask(lengths: Tensor, source_length: int | None = None) -> Tensor:
    """Mark the real tokens of sequences that were padded at their ends to one length.

    Args:
        lengths: (N,) whole numbers, how many tokens of each sequence are real.
        source_length: Padded length S; the largest of ``lengths`` by default.

    Returns:
        (N, S) bool, True = a real token: a ``key_mask``. For token ids, ``tokens != null`` says the same.

    Raises:
        TypeError: If ``lengths`` is no tensor of whole numbers.
        ValueError: If it has not one axis, or a length is negative or above ``source_length``.

    Example:
        >>> padding_mask(torch.tensor([2, 3])).int()
        tensor([[1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_tensor("padding_mask", "lengths", lengths, floating=False)
    if lengths.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        raise TypeError(explain("padding_mask", "lengths", "whole numbers", lengths.dtype, "convert it with .long()"))
    check_shape("padding_mask", "lengths", lengths, "give one length per sequence", N=None)
    if source_length is None:
        source_length = int(lengths.max()) if lengths.numel() else 0
    check_count("padding_mask", "source_length", source_length, minimum=0)
    if lengths.device.type != "meta" and bool(((lengths < 0) | (lengths > source_length)).any()):
        fix = "pass a larger source_length, or cut the lengths"
        raise ValueError(explain("padding_mask", "lengths", f"from 0 to {source_length}", lengths.tolist(), fix))
    return torch.arange(source_length, device=lengths.device) < lengths.unsqueeze(1)  # (N, S)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut every token's vector into H pieces, one per head.

    Args:
        x: (N, T, D) with D a multiple of ``num_heads``.
        num_heads: Number of heads H.

    Returns:
        (N, H, T, K), head h holding the columns h*K to (h+1)*K.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``x`` has not three axes, or D is no multiple of H.

    Example:
        >>> split_heads(torch.arange(4).view(1, 1, 4), 2)
        tensor([[[[0, 1]],
        <BLANKLINE>
                 [[2, 3]]]])
    """
    check_tensor("split_heads", "x", x, floating=False)
    check_count("split_heads", "num_heads", num_heads)
    check_shape("split_heads", "x", x, N=None, T=None, D=None)
    _check_divisible("split_heads", x.shape[-1], num_heads)
    # Exercise 1.5, first half: cut the last axis in two, then bring the heads forward (about 2 lines; view or
    # unflatten, transpose).
    ### BEGIN SOLUTION 1.5 split_heads
    pieces = x.unflatten(-1, (num_heads, -1))  # (N, T, H, K)
    return pieces.transpose(1, 2)  # (N, H, T, K)
    ### END SOLUTION 1.5 split_heads


def join_heads(x: Tensor) -> Tensor:
    """Put the pieces of every token side by side again: the way back from ``split_heads``.

    Args:
        x: (N, H, T, K).

    Returns:
        (N, T, D) with D = H*K.

    Raises:
        TypeError: If ``x`` is no tensor.
        ValueError: If ``x`` has not four axes.

    Example:
        >>> join_heads(torch.zeros(3, 2, 4, 6)).shape
        torch.Size([3, 4, 12])
    """
    check_tensor("join_heads", "x", x, floating=False)
    check_shape("join_heads", "x", x, N=None, H=None, T=None, K=None)
    # Exercise 1.5, second half: the same two steps backwards (about 2 lines; transpose, flatten).
    ### BEGIN SOLUTION 1.5 join_heads
    pieces = x.transpose(1, 2)  # (N, T, H, K)
    return pieces.flatten(2)  # (N, T, D)
    ### END SOLUTION 1.5 join_heads


def fused_projection(x: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """Apply several linear layers to one input in a single matrix product.

    The layers keep their parameters; only the product is shared.

    Args:
        x: (N, S, D) input of all layers.
        layers: Linear layers from the width D, all with a bias or all without.

    Returns:
        One (N, S, out_features) per layer, in their order.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If there is no layer, or their widths or biases do not fit.

    Example:
        >>> key, value = nn.Linear(6, 6), nn.Linear(6, 6)
        >>> [out.shape for out in fused_projection(torch.zeros(2, 5, 6), (key, value))]
        [torch.Size([2, 5, 6]), torch.Size([2, 5, 6])]
    """
    _check_layers(x, layers)
    widths = [layer.out_features for layer in layers]
    # Exercise 1.7: stack the weights, stack the biases (if there are any), multiply once, cut the result at `widths`
    # (about 3 lines; torch.cat, F.linear, split).
    ### BEGIN SOLUTION 1.7
    weight = torch.cat([layer.weight for layer in layers])  # (sum of widths, D)
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    return F.linear(x, weight, bias).split(widths, dim=-1)
    ### END SOLUTION 1.7


class MultiHeadAttention(nn.Module):
    """Attention split over several heads, each with its own view of the tokens.

    Mask signs: here True means "may look", as in ``F.scaled_dot_product_attention``; in ``nn.MultiheadAttention``
    True means "blocked", so pass ``~mask`` there.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the four linear layers have a bias.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``embed_dim`` is no multiple of ``num_heads``, or ``dropout`` is no probability.

    Example:
        >>> attend = MultiHeadAttention(embed_dim=8, num_heads=2)
        >>> tokens, memory = torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)
        >>> attend(tokens, memory, memory).shape
        torch.Size([1, 3, 8])

    Source:
        Vaswani et al. 2017, section 3.2.2, arXiv:1706.03762.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.1, *, bias: bool = True) -> None:
        super().__init__()
        check_count("MultiHeadAttention", "embed_dim", embed_dim)
        check_count("MultiHeadAttention", "num_heads", num_heads)
        check_probability("MultiHeadAttention", "dropout", dropout)
        _check_divisible("MultiHeadAttention", embed_dim, num_heads)
        self.key = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.query = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.value = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.attn_drop = nn.Dropout(dropout)
        self.n_head = num_heads
        self.emd_dim = embed_dim
        self.head_dim = embed_dim // num_heads

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        *,
        key_mask: Tensor | None = None,
        need_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Mix the values into every query position.

        Args:
            query: (N, T, D) tokens that ask.
            key: (N, S, D) tokens that are compared.
            value: (N, S, D) tokens that answer.
            attn_mask: 0/1, nonzero or True where a query may look, as (T, S), (N, T, S), (N, 1, T, S), (N, H, T, S)
                or (N, 1, 1, S). None: everywhere, the future included.
            key_mask: (N, S), nonzero or True = a real token, 0 or False = padding.
            need_weights: Also return the weights, as they were before dropout.
            cache: Keys and values of earlier calls; they stand before the new ones, and S in both masks counts them.

        Returns:
            (N, T, D), or a pair of it and the weights (N, H, T, S). A query that may look at nothing gets the bias
            of ``proj``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes or masks do not fit.
        """
        scores_shape = self._check(query, key, value, cache)
        mask = combine_masks(attn_mask, key_mask, scores_shape, device=query.device, who="MultiHeadAttention")
        dropout_p = self.attn_drop.p if self.attn_drop.training else 0.0
        # Exercise 1.6: project, split the heads, attend, join the heads, project (about 6 lines). `self._project`
        # applies self.query, self.key and self.value; `_attend(q, k, v, mask, dropout_p, need_weights)` calls your
        # scaled_dot_product_attention and returns a pair: what was mixed, and the weights or None. With a cache, pass
        # keys and values of the heads through `extend_cache(cache, k, v)` and use what it returns.
        ### BEGIN SOLUTION 1.6
        q, k, v = (split_heads(x, self.n_head) for x in self._project(query, key, value))  # (N, H, T or S, K)
        if cache is not None:
            k, v = extend_cache(cache, k, v)
        context, weights = _attend(q, k, v, mask, dropout_p, need_weights)  # (N, H, T, K)
        out = self.proj(join_heads(context))  # (N, T, D)
        return (out, weights) if need_weights else out
        ### END SOLUTION 1.6

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        ### BEGIN REFERENCE ONLY
        # One product for all that read the same tensor; a layer that was replaced or hooked is called by itself.
        if key is value and _are_plain(self.query, self.key, self.value):
            if query is key:
                return fused_projection(query, (self.query, self.key, self.value))
            return self.query(query), *fused_projection(key, (self.key, self.value))
        ### END REFERENCE ONLY
        return self.query(query), self.key(key), self.value(value)

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, cache: KeyValueCache | None
    ) -> tuple[int, int, int, int]:
        who = "MultiHeadAttention"
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            check_tensor(who, name, tensor)
        check_shape(who, "query", query, N=None, T=None, D=self.emd_dim)
        check_shape(who, "key", key, "key needs the batch and width of query", N=len(query), S=None, D=self.emd_dim)
        fix = "value needs one row for every key"
        check_shape(who, "value", value, fix, N=len(query), S=key.shape[1], D=self.emd_dim)
        check_same_kind(who, "query", query=query, key=key, value=value)
        check_like_weights(who, self.proj, query=query)
        remembered = 0 if cache is None else _check_cache(who, cache, query, self.n_head, self.head_dim)
        return query.shape[0], self.n_head, query.shape[1], remembered + key.shape[1]


@contextmanager
def recorded_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Watch where a model looks: keep the weights of every attention layer inside it while the block runs.

    Args:
        model: A module with ``MultiHeadAttention`` layers somewhere inside, or one itself.

    Yields:
        For each layer, by its name in the model, the weights (N, H, T, S) of every call, before dropout.

    Raises:
        TypeError: If ``model`` is no module.
        ValueError: If it has no ``MultiHeadAttention``.

    Example:
        >>> attend = MultiHeadAttention(embed_dim=8, num_heads=2)
        >>> with recorded_weights(attend) as weights:
        ...     _ = attend(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8), torch.zeros(1, 5, 8))
        >>> weights[""][0].shape
        torch.Size([1, 2, 3, 5])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(explain("recorded_weights", "model", "an nn.Module", type(model).__name__, "pass a model"))
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, MultiHeadAttention)}
    if not layers:
        fix = "pass a model that attends by MultiHeadAttention"
        raise ValueError(explain("recorded_weights", "model", "one with attention layers", type(model).__name__, fix))
    record: dict[str, list[Tensor]] = {name: [] for name in layers}
    handles: list[RemovableHandle] = []
    for name, layer in layers.items():
        handles += _watch(layer, record[name])
    try:
        yield record
    finally:
        for handle in handles:
            handle.remove()


def _watch(layer: MultiHeadAttention, seen: list[Tensor]) -> list[RemovableHandle]:
    asked: list[bool] = []  # what the caller wanted, so that the answer keeps its form

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        asked.append(kwargs.get("need_weights", False))
        return args, {**kwargs, "need_weights": True}

    def after(_: nn.Module, _args: tuple[Any, ...], answer: tuple[Tensor, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
        seen.append(answer[1].detach())
        return answer if asked.pop() else answer[0]

    return [layer.register_forward_pre_hook(before, with_kwargs=True), layer.register_forward_hook(after)]


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    ### BEGIN REFERENCE ONLY
    if not need_weights:
        return _fused_attention(query, key, value, mask, dropout_p), None
    ### END REFERENCE ONLY
    mixed, weights = scaled_dot_product_attention(query, key, value, mask, dropout_p, need_weights=True)
    return mixed, weights if need_weights else None


### BEGIN REFERENCE ONLY
def _fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> Tensor:
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p)
    # Kernels differ in what they make of a row that may see nothing: let it see everything, then blank it.
    dead = ~mask.any(dim=-1, keepdim=True)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask | dead, dropout_p=dropout_p)
    return mixed.masked_fill(dead, 0.0)


def _are_plain(*layers: nn.Module) -> bool:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    plain = all(type(layer) is nn.Linear and not any(getattr(layer, name) for name in hooks) for layer in layers)
    return plain and len({layer.bias is None for layer in layers}) == 1


### END REFERENCE ONLY


def _check_heads(who: str, query: Tensor, key: Tensor, value: Tensor | None = None) -> None:
    tensors = {"query": query, "key": key} if value is None else {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        check_tensor(who, name, tensor)
    if not 2 <= query.dim() <= 4:
        fix = "split the heads first, or leave out the axes N and H"
        raise ValueError(explain(who, "query", "of shape (N, H, T, K)", tuple(query.shape), fix))
    leading, width = tuple(query.shape[:-2]), query.shape[-1]
    if key.dim() != query.dim() or (*key.shape[:-2], key.shape[-1]) != (*leading, width):
        wanted = ", ".join(str(size) for size in (*leading, "S", width))
        fix = "keys need the batch, heads and width of the queries"
        raise ValueError(explain(who, "key", f"of shape ({wanted}) like query", tuple(key.shape), fix))
    if value is not None and value.shape[:-1] != key.shape[:-1]:
        fix = "values need one row for every key"
        wanted = ", ".join(str(size) for size in (*key.shape[:-1], "K"))
        raise ValueError(explain(who, "value", f"of shape ({wanted}) like key", tuple(value.shape), fix))
    check_same_kind(who, "query", **tensors)


def _check_mask(who: str, mask: Tensor | None, shape: tuple[int, ...], device: torch.device) -> Tensor | None:
    return None if mask is None else check_attention_mask(mask, shape, who=who).to(device)


def _check_divisible(who: str, width: int, num_heads: int) -> None:
    if width % num_heads:
        below, above = width // num_heads * num_heads, (width // num_heads + 1) * num_heads
        fix = f"use a width of {below or above} or {above}, or another number of heads"
        raise ValueError(explain(who, "embed_dim", f"a multiple of num_heads = {num_heads}", width, fix))


def _check_layers(x: Tensor, layers: Sequence[nn.Linear]) -> None:
    who = "fused_projection"
    check_tensor(who, "x", x)
    if not layers or not all(isinstance(layer, nn.Linear) for layer in layers):
        got = [type(layer).__name__ for layer in layers]
        raise TypeError(explain(who, "layers", "one or more nn.Linear", got, "pass (self.key, self.value), say"))
    check_shape(who, "x", x, "all layers read the same input", N=None, S=None, D=layers[0].in_features)
    for layer in layers:
        if layer.in_features != x.shape[-1] or (layer.bias is None) != (layers[0].bias is None):
            expected = f"of one input width ({x.shape[-1]}) and all with or all without a bias"
            raise ValueError(explain(who, "layers", expected, [str(each) for each in layers], "apply them one by one"))


def _check_cache(who: str, cache: KeyValueCache, query: Tensor, heads: int, width: int) -> int:
    if not isinstance(cache, KeyValueCache):
        fix = "make one with KeyValueCache() per attention layer"
        raise TypeError(explain(who, "cache", "a KeyValueCache", type(cache).__name__, fix))
    if cache.key is not None:
        check_shape(
            who, "cache.key", cache.key, "start a new cache for a new batch", N=len(query), H=heads, S=None, K=width
        )
    return cache.length
