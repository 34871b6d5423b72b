"""Blocks: attention mixes tokens, a small network works on each one, and residual paths carry the rest along.

Letters: N batch, T target length, S source length, D model width, H heads, F feed-forward width.
Post-norm is LayerNorm(x + sublayer(x)), as in the paper and by default here; pre-norm is x + sublayer(LayerNorm(x)).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch  # noqa: F401  the examples in the docstrings use it
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .cache import DecoderCache, DecoderLayerCache
from .errors import check_choice, check_count, check_like_weights, check_probability, check_shape, check_tensor, explain
from .masks import check_masks

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

AttentionBuilder = Callable[[int, int, float], nn.Module]


class FeedForwardNetwork(nn.Module):
    """Work on each token by itself: widen, bend, narrow.

    fc2(dropout(activation(fc1(x)))), with the exact (erf) form of GELU.

    Args:
        embed_dim: Model width D.
        ffn_dim: Inner width F, often 4 D.
        dropout: Probability with which an inner entry is dropped in training.
        activation: "gelu" or "relu".

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a width is not positive, ``dropout`` no probability or ``activation`` unknown.

    Example:
        >>> FeedForwardNetwork(embed_dim=6, ffn_dim=24)(torch.zeros(2, 3, 6)).shape
        torch.Size([2, 3, 6])

    Source:
        Vaswani et al. 2017, section 3.3, arXiv:1706.03762; Hendrycks and Gimpel 2016, arXiv:1606.08415.
    """

    def __init__(self, embed_dim: int, ffn_dim: int, dropout: float = 0.1, *, activation: str = "gelu") -> None:
        super().__init__()
        check_count("FeedForwardNetwork", "embed_dim", embed_dim)
        check_count("FeedForwardNetwork", "ffn_dim", ffn_dim)
        check_probability("FeedForwardNetwork", "dropout", dropout)
        check_choice("FeedForwardNetwork", "activation", activation, ("gelu", "relu"))
        self.fc1 = nn.Linear(embed_dim, ffn_dim)
        self.gelu = nn.GELU() if activation == "gelu" else nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(ffn_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Transform every token alike.

        Args:
            x: (N, T, D), or any shape that ends in D.

        Returns:
            The shape of ``x``.

        Raises:
            TypeError: If ``x`` is no tensor of the dtype of the weights.
            ValueError: If the last axis is not D, or ``x`` is not where the weights are.
        """
        check_tensor("FeedForwardNetwork", "x", x)
        if x.shape[-1:] != (self.fc1.in_features,):
            expected = f"of shape (..., D) with D = {self.fc1.in_features}"
            raise ValueError(explain("FeedForwardNetwork", "x", expected, tuple(x.shape), "check the last axis"))
        check_like_weights("FeedForwardNetwork", self.fc1, x=x)
        # Exercise 3.1: self.fc1, the activation self.gelu, self.dropout, self.fc2 (about 1 line).
        ### BEGIN SOLUTION 3.1
        return self.fc2(self.dropout(self.gelu(self.fc1(x))))
        ### END SOLUTION 3.1


class TransformerEncoderLayer(nn.Module):
    """One round of an encoder: tokens look at each other, then each is worked on.

    Args:
        input_dim: Model width D.
        num_heads: Number of heads H.
        dim_feedforward: Inner width F of the feed-forward network.
        dropout: Probability of dropout, in attention, in the network and on what joins the residual path.
        norm_first: Pre-norm instead of post-norm; a stack of such layers ends in a norm of its own.
        activation: "gelu" or "relu".
        bias: Whether linear layers and norms have a bias, as in torch's layers.
        attention: Builds another attention, ``attention(input_dim, num_heads, dropout) -> module``, to be called
            as ``module(query, key, value, attn_mask)``; ``key_mask=`` is passed on only where the caller gives one.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit or ``activation`` is unknown.

    Example:
        >>> layer = TransformerEncoderLayer(input_dim=8, num_heads=2, dim_feedforward=16)
        >>> layer(torch.zeros(2, 3, 8)).shape
        torch.Size([2, 3, 8])

    Source:
        Vaswani et al. 2017, section 3.1, arXiv:1706.03762; pre-norm: Xiong et al. 2020, arXiv:2002.04745.
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        *,
        norm_first: bool = False,
        activation: str = "gelu",
        bias: bool = True,
        attention: AttentionBuilder | None = None,
    ) -> None:
        super().__init__()
        self.input_dim, self.norm_first = input_dim, norm_first
        self.self_attn = _build_attention(attention, input_dim, num_heads, dropout, bias)
        self.ffn = FeedForwardNetwork(input_dim, dim_feedforward, dropout, activation=activation)
        self.norm_self = nn.LayerNorm(input_dim, bias=bias)
        self.norm_ffn = nn.LayerNorm(input_dim, bias=bias)
        self.dropout_self = nn.Dropout(dropout)
        self.dropout_ffn = nn.Dropout(dropout)
        if not bias:
            _remove_bias(self.ffn)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        *,
        src_key_mask: Tensor | None = None,
        pos: Tensor | None = None,
    ) -> Tensor:
        """Let the tokens look at each other.

        Args:
            src: (N, T, D) tokens.
            src_mask: 0/1, nonzero or True where a token may look, as (T, T), (N, T, T), (N, 1, T, T), (N, H, T, T) or
                (N, 1, 1, T). None: everywhere.
            src_key_mask: (N, T), nonzero or True = a real token.
            pos: (N, T, D), (1, T, D) or (T, D), added to queries and keys but not to values.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes or masks do not fit.
        """
        who = "TransformerEncoderLayer"
        _check_tokens(who, "src", src, self.input_dim)
        _check_pos(who, "pos", pos, src)
        masks = {"src_mask": src_mask, "src_key_mask": src_key_mask}
        check_masks(who, _scores_shape(self.self_attn, src, src.shape[1]), **masks)
        options = _given(key_mask=src_key_mask)
        sublayers = self._pre_norm if self.norm_first else self._post_norm
        return sublayers(src, src_mask, pos, options)

    def _post_norm(self, src: Tensor, src_mask: Tensor | None, pos: Tensor | None, options: dict[str, Any]) -> Tensor:
        # Exercise 3.2: self-attention, then self.ffn; each through its dropout, onto the residual path, through its
        # norm (about 4 lines). Queries and keys are `with_pos(src, pos)`, values are src; end the call of
        # self.self_attn with `src_mask, **options`.
        ### BEGIN SOLUTION 3.2
        query = with_pos(src, pos)
        attended = self.self_attn(query, query, src, src_mask, **options)
        src = self.norm_self(src + self.dropout_self(attended))
        return self.norm_ffn(src + self.dropout_ffn(self.ffn(src)))
        ### END SOLUTION 3.2

    def _pre_norm(self, src: Tensor, src_mask: Tensor | None, pos: Tensor | None, options: dict[str, Any]) -> Tensor:
        # Exercise 3.4: the same two sublayers, but the norm stands before each of them and the residual path stays
        # untouched (about 4 lines). Add `pos` after the norm.
        ### BEGIN SOLUTION 3.4
        value = self.norm_self(src)
        query = with_pos(value, pos)
        src = src + self.dropout_self(self.self_attn(query, query, value, src_mask, **options))
        return src + self.dropout_ffn(self.ffn(self.norm_ffn(src)))
        ### END SOLUTION 3.4


class TransformerDecoderLayer(nn.Module):
    """One round of a decoder: tokens look at each other, then at the memory, then each is worked on.

    Args:
        input_dim: Model width D.
        num_heads: Number of heads H.
        dim_feedforward: Inner width F of the feed-forward network.
        dropout: Probability of dropout, in attention, in the network and on what joins the residual path.
        norm_first: Pre-norm instead of post-norm; a stack of such layers ends in a norm of its own.
        activation: "gelu" or "relu".
        bias: Whether linear layers and norms have a bias, as in torch's layers.
        attention: Builds both attentions, ``attention(input_dim, num_heads, dropout) -> module``, to be called as
            ``module(query, key, value, attn_mask)``; ``key_mask=`` and ``cache=`` are passed on only where the
            caller gives them.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit or ``activation`` is unknown.

    Example:
        >>> layer = TransformerDecoderLayer(input_dim=8, num_heads=2, dim_feedforward=16)
        >>> layer(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8)).shape
        torch.Size([2, 3, 8])

    Source:
        Vaswani et al. 2017, section 3.1, arXiv:1706.03762; positions: Carion et al. 2020, figure 10, arXiv:2005.12872.
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        *,
        norm_first: bool = False,
        activation: str = "gelu",
        bias: bool = True,
        attention: AttentionBuilder | None = None,
    ) -> None:
        super().__init__()
        self.input_dim, self.norm_first = input_dim, norm_first
        self.self_attn = _build_attention(attention, input_dim, num_heads, dropout, bias)
        self.cross_attn = _build_attention(attention, input_dim, num_heads, dropout, bias)
        self.ffn = FeedForwardNetwork(input_dim, dim_feedforward, dropout, activation=activation)
        self.norm_self = nn.LayerNorm(input_dim, bias=bias)
        self.norm_cross = nn.LayerNorm(input_dim, bias=bias)
        self.norm_ffn = nn.LayerNorm(input_dim, bias=bias)
        self.dropout_self = nn.Dropout(dropout)
        self.dropout_cross = nn.Dropout(dropout)
        self.dropout_ffn = nn.Dropout(dropout)
        if not bias:
            _remove_bias(self.ffn)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        tgt_key_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        query_pos: Tensor | None = None,
        memory_pos: Tensor | None = None,
        cache: DecoderLayerCache | None = None,
    ) -> Tensor:
        """Let the tokens look at each other and at the memory.

        Args:
            tgt: (N, T, D) tokens; with a cache, only the new ones.
            memory: (N, S, D) what an encoder made; with a cache it is projected by the first call alone.
            tgt_mask: 0/1, nonzero or True where a token may look, as (T, T), (N, T, T), (N, 1, T, T), (N, H, T, T) or
                (N, 1, 1, T); with a cache its columns count the cached tokens too. None: everywhere, the future
                included; ``causal_mask`` hides it.
            memory_mask: The same with S for the columns, for the look at the memory.
            tgt_key_mask: (N, T), nonzero or True = a real token.
            memory_key_mask: (N, S), nonzero or True = a real token.
            query_pos: (N, T, D), (1, T, D) or (T, D), added to the target's queries and keys but not to values.
            memory_pos: (N, S, D), (1, S, D) or (S, D), added to the memory's keys but not to values.
            cache: What earlier calls left for this layer; it grows by T tokens.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes or masks do not fit.
        """
        own_masks = {"tgt_mask": tgt_mask, "tgt_key_mask": tgt_key_mask}
        other_masks = {"memory_mask": memory_mask, "memory_key_mask": memory_key_mask}
        self._check(tgt, memory, query_pos, memory_pos, cache, own_masks, other_masks)
        own = _given(key_mask=tgt_key_mask, cache=cache and cache.self_attn)
        other = _given(key_mask=memory_key_mask, cache=cache and cache.cross_attn)
        if cache is not None and cache.cross_attn.length:
            memory, memory_pos = memory[:, :0], None  # nothing new to project: all of it is in the cache
        sublayers = self._pre_norm if self.norm_first else self._post_norm
        return sublayers(tgt, memory, tgt_mask, memory_mask, query_pos, memory_pos, own, other)

    def _post_norm(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None,
        memory_mask: Tensor | None,
        query_pos: Tensor | None,
        memory_pos: Tensor | None,
        own: dict[str, Any],
        other: dict[str, Any],
    ) -> Tensor:
        query = with_pos(tgt, query_pos)
        tgt = self.norm_self(tgt + self.dropout_self(self.self_attn(query, query, tgt, tgt_mask, **own)))
        # Exercise 3.3: the look at the memory (self.cross_attn, norm_cross, dropout_cross), then self.ffn, in the same
        # manner (about 4 lines). Queries are `with_pos(tgt, query_pos)`, keys `with_pos(memory, memory_pos)`, values
        # memory; end the call of self.cross_attn with `memory_mask, **other`.
        ### BEGIN SOLUTION 3.3
        query, key = with_pos(tgt, query_pos), with_pos(memory, memory_pos)
        attended = self.cross_attn(query, key, memory, memory_mask, **other)
        tgt = self.norm_cross(tgt + self.dropout_cross(attended))
        return self.norm_ffn(tgt + self.dropout_ffn(self.ffn(tgt)))
        ### END SOLUTION 3.3

    def _pre_norm(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None,
        memory_mask: Tensor | None,
        query_pos: Tensor | None,
        memory_pos: Tensor | None,
        own: dict[str, Any],
        other: dict[str, Any],
    ) -> Tensor:
        normed = self.norm_self(tgt)
        asked = with_pos(normed, query_pos)
        tgt = tgt + self.dropout_self(self.self_attn(asked, asked, normed, tgt_mask, **own))
        asked, keys = with_pos(self.norm_cross(tgt), query_pos), with_pos(memory, memory_pos)
        tgt = tgt + self.dropout_cross(self.cross_attn(asked, keys, memory, memory_mask, **other))
        return tgt + self.dropout_ffn(self.ffn(self.norm_ffn(tgt)))

    def _check(
        self,
        tgt: Tensor,
        memory: Tensor,
        query_pos: Tensor | None,
        memory_pos: Tensor | None,
        cache: DecoderLayerCache | None,
        own_masks: dict[str, Tensor | None],
        other_masks: dict[str, Tensor | None],
    ) -> None:
        who = "TransformerDecoderLayer"
        _check_tokens(who, "tgt", tgt, self.input_dim)
        _check_tokens(who, "memory", memory, self.input_dim, batch=len(tgt))
        _check_pos(who, "query_pos", query_pos, tgt)
        _check_pos(who, "memory_pos", memory_pos, memory)
        if cache is not None and not isinstance(cache, DecoderLayerCache):
            fix = "make one with DecoderLayerCache() per layer, or DecoderCache(num_layers) for a stack"
            raise TypeError(explain(who, "cache", "a DecoderLayerCache", type(cache).__name__, fix))
        if cache is not None and cache.cross_attn.length not in (0, memory.shape[1]):
            expected = f"as long as the cached one, S = {cache.cross_attn.length}"
            raise ValueError(explain(who, "memory", expected, memory.shape[1], "start a new cache for a new memory"))
        sources = tgt.shape[1] + (0 if cache is None else cache.length)
        check_masks(who, _scores_shape(self.self_attn, tgt, sources), **own_masks)
        check_masks(who, _scores_shape(self.cross_attn, tgt, memory.shape[1]), **other_masks)


def clone_layers(layer: nn.Module, num_layers: int) -> nn.ModuleList:
    """Make a stack from one layer: copies that start alike and share nothing.

    Args:
        layer: The pattern; it stays outside the stack.
        num_layers: Number of copies.

    Returns:
        The copies, in a list whose parameters torch finds.

    Raises:
        TypeError: If ``layer`` is no module or ``num_layers`` no whole number.
        ValueError: If ``num_layers`` is not positive.

    Example:
        >>> first, second = clone_layers(nn.Linear(2, 2), 2)
        >>> first.weight is second.weight, torch.equal(first.weight, second.weight)
        (False, True)
    """
    if not isinstance(layer, nn.Module):
        fix = "pass a layer, not its class"
        raise TypeError(explain("clone_layers", "layer", "an nn.Module", type(layer).__name__, fix))
    check_count("clone_layers", "num_layers", num_layers)
    # Exercise 3.5: that many deep copies in an nn.ModuleList (about 2 lines; copy.deepcopy).
    ### BEGIN SOLUTION 3.5
    copies = [copy.deepcopy(layer) for _ in range(num_layers)]
    return nn.ModuleList(copies)
    ### END SOLUTION 3.5


class TransformerEncoder(nn.Module):
    """A stack of encoder layers.

    The layers are copies of one pattern: they start with the same values until something draws them anew.

    Args:
        encoder_layer: The pattern. If its ``norm_first`` is true, the stack ends in a LayerNorm of its own.
        num_layers: Number of layers.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``num_layers`` is not positive.

    Example:
        >>> encoder = TransformerEncoder(TransformerEncoderLayer(8, num_heads=2, dim_feedforward=16), num_layers=3)
        >>> encoder(torch.zeros(2, 4, 8)).shape
        torch.Size([2, 4, 8])
    """

    def __init__(self, encoder_layer: nn.Module, num_layers: int) -> None:
        super().__init__()
        self.layers = clone_layers(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = _final_norm(encoder_layer)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        *,
        src_key_mask: Tensor | None = None,
        pos: Tensor | None = None,
    ) -> Tensor:
        """Pass the tokens through all layers.

        Args:
            src: (N, T, D) tokens.
            src_mask: 0/1, nonzero or True where a token may look, in the forms of ``TransformerEncoderLayer``.
            src_key_mask: (N, T), nonzero or True = a real token.
            pos: (N, T, D), (1, T, D) or (T, D), added to queries and keys in every layer.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes or masks do not fit.
        """
        options = _given(src_key_mask=src_key_mask, pos=pos)
        for layer in self.layers:
            src = layer(src, src_mask, **options)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(nn.Module):
    """A stack of decoder layers over one memory.

    The layers are copies of one pattern: they start with the same values until something draws them anew.

    Args:
        decoder_layer: The pattern. If its ``norm_first`` is true, the stack ends in a LayerNorm of its own.
        num_layers: Number of layers.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``num_layers`` is not positive.

    Example:
        >>> decoder = TransformerDecoder(TransformerDecoderLayer(8, num_heads=2, dim_feedforward=16), num_layers=3)
        >>> decoder(torch.zeros(2, 4, 8), torch.zeros(2, 5, 8)).shape
        torch.Size([2, 4, 8])
    """

    def __init__(self, decoder_layer: nn.Module, num_layers: int) -> None:
        super().__init__()
        self.layers = clone_layers(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = _final_norm(decoder_layer)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        tgt_key_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        query_pos: Tensor | None = None,
        memory_pos: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Pass the tokens through all layers.

        Args:
            tgt: (N, T, D) tokens; with a cache, only the new ones.
            memory: (N, S, D) what an encoder made.
            tgt_mask: 0/1, nonzero or True where a token may look, in the forms of ``TransformerDecoderLayer``. None:
                everywhere, the future included; ``causal_mask`` hides it.
            memory_mask: The same, for the look at the memory.
            tgt_key_mask: (N, T), nonzero or True = a real token.
            memory_key_mask: (N, S), nonzero or True = a real token.
            query_pos: (N, T, D), (1, T, D) or (T, D), added to the target's queries and keys in every layer.
            memory_pos: (N, S, D), (1, S, D) or (S, D), added to the memory's keys in every layer.
            cache: What earlier calls left, one part per layer; it grows by T tokens.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes, masks or the number of cached layers do not fit.
        """
        caches = _layer_caches(cache, self.num_layers)
        options = _given(
            memory_mask=memory_mask,
            tgt_key_mask=tgt_key_mask,
            memory_key_mask=memory_key_mask,
            query_pos=query_pos,
            memory_pos=memory_pos,
        )
        for layer, part in zip(self.layers, caches, strict=True):
            tgt = layer(tgt, memory, tgt_mask, **options, **_given(cache=part))
        return tgt if self.norm is None else self.norm(tgt)


def with_pos(x: Tensor, pos: Tensor | None) -> Tensor:
    """Add positions where there are any.

    Args:
        x: (N, T, D) tokens.
        pos: (N, T, D), (1, T, D) or (T, D), or None.

    Returns:
        (N, T, D); ``x`` itself without positions, so that attention still sees that query and key are one tensor.

    Example:
        >>> with_pos(torch.ones(1, 1, 2), torch.tensor([[0.0, 5.0]]))
        tensor([[[1., 6.]]])
    """
    return x if pos is None else x + pos.to(x.dtype)


def init_weights(module: nn.Module) -> None:
    """Draw one module's weights anew; ``model.apply(init_weights)`` does it for all, so that copied layers differ.

    Weights of linear layers and embeddings come from N(0, 0.02^2), biases are 0, a LayerNorm starts as the identity.

    Args:
        module: Any module; of other kinds nothing changes.

    Example:
        >>> layer = nn.Linear(3, 2).apply(init_weights)
        >>> layer.bias.tolist()
        [0.0, 0.0]

    Source:
        Radford et al. 2018, section 4.1, "Improving Language Understanding by Generative Pre-Training".
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, mean=0.0, std=0.02)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
    if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
        nn.init.zeros_(module.bias)


def _given(**options: Any) -> dict[str, Any]:
    """Keep what the caller gave: a drop-in attention need not know keywords that are not in use."""
    return {name: value for name, value in options.items() if value is not None}


def _build_attention(
    attention: AttentionBuilder | None, input_dim: int, num_heads: int, dropout: float, bias: bool
) -> nn.Module:
    if attention is None:
        return MultiHeadAttention(input_dim, num_heads, dropout, bias=bias)
    if not callable(attention) or isinstance(attention, nn.Module):
        fix = "pass a class or function of (embed_dim, num_heads, dropout), not a module"
        raise TypeError(explain("attention", "the builder", "callable", type(attention).__name__, fix))
    built = attention(input_dim, num_heads, dropout)
    if not isinstance(built, nn.Module):
        fix = "return a module that is called like MultiHeadAttention"
        raise TypeError(explain("attention", "what the builder returns", "an nn.Module", type(built).__name__, fix))
    return built


def _scores_shape(attention: nn.Module, tokens: Tensor, sources: int) -> tuple[int, int, int, int]:
    return tokens.shape[0], getattr(attention, "n_head", 1), tokens.shape[1], sources


def _remove_bias(ffn: FeedForwardNetwork) -> None:
    ffn.fc1.register_parameter("bias", None)
    ffn.fc2.register_parameter("bias", None)


def _final_norm(layer: nn.Module) -> nn.LayerNorm | None:
    """Pre-norm layers leave their residual path unnormalised; the stack has to end it."""
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    if not getattr(layer, "norm_first", False) or not norms:
        return None
    like, weight = norms[-1], norms[-1].weight
    has_bias = like.bias is not None
    return nn.LayerNorm(like.normalized_shape, like.eps, bias=has_bias, device=weight.device, dtype=weight.dtype)


def _layer_caches(cache: DecoderCache | None, num_layers: int) -> list[DecoderLayerCache | None]:
    if cache is None:
        return [None] * num_layers
    fix = "make one with DecoderCache(num_layers)"
    if not isinstance(cache, DecoderCache):
        raise TypeError(explain("TransformerDecoder", "cache", "a DecoderCache", type(cache).__name__, fix))
    if len(cache.layers) != num_layers:
        raise ValueError(explain("TransformerDecoder", "cache", f"for {num_layers} layers", len(cache.layers), fix))
    return list(cache.layers)


def _check_tokens(who: str, name: str, tokens: Tensor, width: int, batch: int | None = None) -> None:
    check_tensor(who, name, tokens)
    length = "S" if name == "memory" else "T"
    check_shape(who, name, tokens, "tokens come batch first", **{"N": batch, length: None, "D": width})


def _check_pos(who: str, name: str, pos: Tensor | None, tokens: Tensor) -> None:
    if pos is None:
        return
    check_tensor(who, name, pos)
    batch, length, width = tokens.shape
    if tuple(pos.shape) not in ((batch, length, width), (1, length, width), (length, width)):
        expected = f"of shape {(batch, length, width)}, (1, {length}, {width}) or {(length, width)}"
        raise ValueError(explain(who, name, expected, tuple(pos.shape), "give one vector per token"))
    if pos.device != tokens.device:
        fix = f"move it with .to({str(tokens.device)!r})"
        raise ValueError(explain(who, name, f"on {tokens.device} like the tokens", pos.device, fix))
