"""Efficient attention as layers: each takes the place of ``MultiHeadAttention`` in a block, with the same weights.

``TransformerEncoderLayer(..., attention=builder("linear"))`` builds a block with one of them. What a layer cannot do
(masks, the future hidden, other lengths) it refuses with an error.

Letters: N batch, T target (query) length, S source (key) length, D model width, H heads, K = D/H head width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention, causal_mask, join_heads, split_heads
from .buckets import bucket_attention, draw_rotations
from .cache import KeyValueCache
from .efficient import (
    LinearState,
    causal_linear_attention,
    chunked_attention,
    linear_attention,
    linear_attention_step,
    linear_state,
    low_rank_attention,
    orthogonal_projection,
    positive_features,
    random_features,
)
from .errors import check_choice, check_count, check_shape, check_tensor, explain
from .masks import check_attention_mask, check_masks
from .windows import relative_positions, shifted_window_attention, sliding_window_attention


class EfficientAttention(MultiHeadAttention):
    """What the layers share: projections as in ``MultiHeadAttention``, and errors for what a method cannot do.

    The weights have the names and shapes of ``MultiHeadAttention``: a trained layer's state can be loaded.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability of dropout: on the weights where a method has them, else on what the heads have mixed.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit, or the method cannot be causal.
    """

    can_be_causal = True
    any_mask = False  # whether an arbitrary attn_mask is honoured
    any_memory = True  # whether queries may look at another sequence
    padding = True  # whether key_mask is honoured

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.1, *, bias: bool = True, causal: bool = False
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias)
        if causal and not self.can_be_causal:
            fix = 'choose another method, "chunked" or "linear", say'
            raise ValueError(explain(type(self).__name__, "causal", "False: it mixes all positions", causal, fix))
        self.causal = causal

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
    ) -> Tensor:
        """Mix the values into every query position.

        Args:
            query: (N, T, D) tokens that ask.
            key: (N, S, D) tokens that are compared; the same tensor as ``query`` where a method needs self-attention.
            value: (N, S, D) tokens that answer.
            attn_mask: Where a query may look, in the forms of ``MultiHeadAttention``, for a method that can honour it.
                A causal layer also takes the causal mask, which says what it does anyway.
            key_mask: (N, S), nonzero or True = a real token, 0 or False = padding.
            need_weights: Not possible: the weights are never made as a whole.
            cache: Not possible; ``LinearAttention.step`` generates token by token.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If shapes or masks do not fit, or the method cannot do what is asked.
        """
        who, (N, _, T, S) = type(self).__name__, self._check(query, key, value, None)
        self._check_possible(query is key, key_mask, need_weights, cache)
        mask = self._honoured(attn_mask, (N, self.n_head, T, S))
        check_masks(who, (N, self.n_head, T, S), key_mask=key_mask)
        projected = self._project(query, key, value)
        q, k, v = (split_heads(one, self.n_head) for one in projected)  # (N, H, T or S, K)
        options = {"mask": mask} if self.any_mask else {}
        mixed = self.attend(q, k, v, key_mask, **options)  # (N, H, T, K)
        return self.proj(join_heads(mixed))  # (N, T, D)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Mix the values of all heads: what a method is. One of ``any_mask`` takes a ``mask`` too.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            value: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None.

        Returns:
            (N, H, T, K).

        Raises:
            NotImplementedError: In this class, which is no method yet.
        """
        raise NotImplementedError(f"{type(self).__name__}: write attend(query, key, value, key_mask)")

    @property
    def dropout_p(self) -> float:
        """The probability of dropout at this moment: 0 in eval mode."""
        return self.attn_drop.p if self.attn_drop.training else 0.0

    def _check_possible(
        self, is_self: bool, key_mask: Tensor | None, need_weights: bool, cache: KeyValueCache | None
    ) -> None:
        who = type(self).__name__
        if need_weights:
            fix = "use MultiHeadAttention, with the same state dict, to look at weights"
            raise ValueError(explain(who, "need_weights", "False: the weights are never made as a whole", True, fix))
        if cache is not None:
            fix = "use LinearAttention.step, or MultiHeadAttention, to generate token by token"
            raise ValueError(explain(who, "cache", "None", type(cache).__name__, fix))
        if key_mask is not None and not self.padding:
            fix = "a grid has no padding: give images of one size, or use another attention"
            raise ValueError(explain(who, "key_mask", "None", f"a mask of shape {tuple(key_mask.shape)}", fix))
        if not is_self and (self.causal or not self.any_memory):
            reason = "it is causal" if self.any_memory else "its pattern belongs to one sequence"
            fix = "use another attention for the look at a memory"
            expected = f"the same tensor as query ({reason})"
            raise ValueError(explain(who, "key", expected, "another one", fix))

    def _honoured(self, attn_mask: Tensor | None, shape: tuple[int, int, int, int]) -> Tensor | None:
        """Hand an arbitrary mask on, take note of the causal one, refuse what would be ignored."""
        who = type(self).__name__
        if attn_mask is None or self.any_mask:
            return attn_mask
        mask = check_attention_mask(attn_mask, shape, who=who, name="attn_mask")
        if self.causal and mask.device.type != "meta":
            if torch.equal(mask.expand(*mask.shape[:2], *shape[2:]), self._causal_like(mask, shape)):
                return None
        elif self.causal:
            return None
        expected = "None or the causal mask" if self.causal else "None: it cannot hide single pairs"
        fix = "build the layer with causal=True to hide the future, or use ChunkedAttention for other masks"
        raise ValueError(explain(who, "attn_mask", expected, f"a mask of shape {tuple(attn_mask.shape)}", fix))

    def _causal_like(self, mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
        return causal_mask(shape[2], shape[3], device=mask.device).expand(*mask.shape[:2], -1, -1)


class ChunkedAttention(EfficientAttention):
    """Exact attention, block by block: the memory of all pairs is never needed at once.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only; cheaper than a mask.
        chunk_size: Queries and keys of one block.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> attend, x = ChunkedAttention(8, 2, chunk_size=4), torch.zeros(1, 9, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 9, 8])

    Source:
        Dao et al. 2022, arXiv:2205.14135.
    """

    any_mask = True

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        chunk_size: int = 256,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        check_count("ChunkedAttention", "chunk_size", chunk_size)
        self.chunk_size = chunk_size

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_mask: Tensor | None = None,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Mix the values block by block.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            value: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None.
            mask: Where a query may look, or None.

        Returns:
            (N, H, T, K).
        """
        options = {"causal": self.causal, "chunk_size": self.chunk_size, "dropout_p": self.dropout_p}
        return chunked_attention(query, key, value, mask, key_mask=key_mask, **options)


class LinearAttention(EfficientAttention):
    """Attention whose weights are products of features elu(x) + 1: no softmax, and no square of the length.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability of dropout on what the heads have mixed.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> attend, x = LinearAttention(8, 2, causal=True), torch.randn(1, 3, 8)
        >>> state, rows = None, []
        >>> for token in x.split(1, dim=1):
        ...     row, state = attend.eval().step(token, state)
        ...     rows.append(row)
        >>> torch.allclose(torch.cat(rows, dim=1), attend(x, x, x), atol=1e-5)
        True

    Source:
        Katharopoulos et al. 2020, arXiv:2006.16236.
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Mix the values by the weights of features.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            value: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None.

        Returns:
            (N, H, T, K).
        """
        query, key = self.features(query, key, key_mask)
        mixing = causal_linear_attention if self.causal else linear_attention
        return self.attn_drop(mixing(query, key, value, key_mask))

    def features(self, query: Tensor, key: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Map queries and keys to features that are not negative.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None; for features that depend on all keys.

        Returns:
            Both, each of its own length.
        """
        return positive_features(query), positive_features(key)

    def step(self, token: Tensor, state: LinearState | None = None) -> tuple[Tensor, LinearState]:
        """Read one more token of a sequence: constant time and memory, however long the past is.

        Args:
            token: (N, 1, D) the new token.
            state: What the last step returned; None for the first token.

        Returns:
            (N, 1, D), what the causal layer gives at this place, and the new state.

        Raises:
            TypeError: If ``token`` is no floating tensor.
            ValueError: If the layer is not causal, or the shapes do not fit.
        """
        who = type(self).__name__
        if not self.causal or type(self).features is not LinearAttention.features:
            fix = "build a LinearAttention with causal=True"
            raise ValueError(explain(who, "the layer", "a causal LinearAttention to go step by step", who, fix))
        check_tensor(who, "token", token)
        check_shape(who, "token", token, "pass one token at a time", N=None, T=1, D=self.emd_dim)
        q, k, v = (split_heads(x, self.n_head) for x in self._project(token, token, token))  # (N, H, 1, K)
        q, k = self.features(q, k)
        state = linear_state(q, v) if state is None else state
        out, state = linear_attention_step(state, q.squeeze(2), k.squeeze(2), v.squeeze(2))  # (N, H, K)
        return self.proj(join_heads(self.attn_drop(out).unsqueeze(2))), state


class RandomFeatureAttention(LinearAttention):
    """Softmax attention on average: linear attention over positive orthogonal random features (FAVOR+).

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability of dropout on what the heads have mixed.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only.
        num_features: Number of features M; more are closer to the softmax.
        seed: Seed of the random directions, which all heads share.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> attend, x = RandomFeatureAttention(8, 2, num_features=16), torch.zeros(1, 9, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 9, 8])

    Source:
        Choromanski et al. 2021, arXiv:2009.14794.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        num_features: int = 64,
        seed: int = 0,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        check_count("RandomFeatureAttention", "num_features", num_features)
        self.num_features = num_features
        weight = self.proj.weight
        self.register_buffer("projection", torch.empty(num_features, self.head_dim).to(weight))
        self.redraw(torch.Generator().manual_seed(seed))

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw other random directions, as is done now and then in training.

        Args:
            generator: Source of randomness; torch's own by default.
        """
        drawn = orthogonal_projection(self.num_features, self.head_dim, generator=generator)
        self.projection.copy_(drawn)

    def features(self, query: Tensor, key: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map queries and keys to positive random features.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None.

        Returns:
            (N, H, T, M) and (N, H, S, M).
        """
        return random_features(query, key, self.projection, key_mask)


class LowRankAttention(EfficientAttention):
    """Attention over a fixed number of learned mixtures of the tokens (Linformer).

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the linear layers have a bias.
        causal: Not possible: a mixture holds the future too.
        max_len: Largest number of keys.
        rank: Number of mixtures R.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit, or ``causal`` is asked for.

    Example:
        >>> attend, x = LowRankAttention(8, 2, max_len=9, rank=3), torch.zeros(1, 9, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 9, 8])

    Source:
        Wang et al. 2020, arXiv:2006.04768.
    """

    can_be_causal = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        max_len: int,
        rank: int = 32,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        check_count("LowRankAttention", "max_len", max_len)
        check_count("LowRankAttention", "rank", rank)
        self.max_len, self.rank = max_len, rank
        self.key_mixtures = nn.Parameter(torch.empty(max_len, rank).uniform_(-1, 1) / rank**0.5)
        self.value_mixtures = nn.Parameter(torch.empty(max_len, rank).uniform_(-1, 1) / rank**0.5)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Mix the values of the mixtures.

        Args:
            query: (N, H, T, K).
            key: (N, H, S, K).
            value: (N, H, S, K).
            key_mask: (N, S), True = a real token, or None.

        Returns:
            (N, H, T, K).

        Raises:
            ValueError: If there are more than ``max_len`` keys.
        """
        if key.shape[2] > self.max_len:
            fix = f"cut the input to {self.max_len} tokens, or build the layer with a larger max_len"
            expected = f"at most max_len = {self.max_len} tokens"
            raise ValueError(explain("LowRankAttention", "key", expected, key.shape[2], fix))
        mixtures = (self.key_mixtures, self.value_mixtures)
        return low_rank_attention(query, key, value, *mixtures, key_mask, dropout_p=self.dropout_p)


class SlidingWindowAttention(EfficientAttention):
    """Attention to the neighbours in a sequence.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only.
        window: How far a token sees on each side.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> attend, x = SlidingWindowAttention(8, 2, window=2), torch.zeros(1, 9, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 9, 8])

    Source:
        Beltagy et al. 2020, arXiv:2004.05150.
    """

    any_memory = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        window: int = 8,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        check_count("SlidingWindowAttention", "window", window, minimum=0)
        self.window = window

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Mix the values of the neighbours.

        Args:
            query: (N, H, T, K).
            key: (N, H, T, K).
            value: (N, H, T, K).
            key_mask: (N, T), True = a real token, or None.

        Returns:
            (N, H, T, K).
        """
        options = {"key_mask": key_mask, "causal": self.causal, "dropout_p": self.dropout_p}
        return sliding_window_attention(query, key, value, self.window, **options)


class ShiftedWindowAttention(EfficientAttention):
    """Attention within the windows of a grid (Swin); in every second layer the windows are shifted.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the linear layers have a bias.
        causal: Not possible: a window has no direction.
        grid: Rows and columns of tokens.
        window: Side of a window in tokens.
        shift: By how much the windows are shifted; ``alternate_shifts`` sets it in a stack.
        relative_bias: Whether a learned number for each offset inside a window is added to the scores.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit, or ``causal`` is asked for.

    Example:
        >>> attend, x = ShiftedWindowAttention(8, 2, grid=(4, 6), window=2, shift=1), torch.zeros(1, 24, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 24, 8])

    Source:
        Liu et al. 2021, arXiv:2103.14030.
    """

    can_be_causal = False
    any_memory = False
    padding = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        grid: tuple[int, int],
        window: int = 4,
        shift: int = 0,
        relative_bias: bool = False,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        for name, number in (("grid", grid[0]), ("grid", grid[1]), ("window", window)):
            check_count("ShiftedWindowAttention", name, number)
        check_choice("ShiftedWindowAttention", "shift", shift, range(window))
        self.grid, self.window, self.shift = tuple(grid), window, shift
        self.offset_bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, num_heads)) if relative_bias else None
        self.register_buffer("offsets", relative_positions(window), persistent=False)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Mix the values of a window.

        Args:
            query: (N, H, P, K).
            key: (N, H, P, K).
            value: (N, H, P, K).
            key_mask: None.

        Returns:
            (N, H, P, K).

        Raises:
            ValueError: If there is not one token for each place of the grid.
        """
        bias = None if self.offset_bias is None else self.offset_bias[self.offsets].permute(2, 0, 1)  # (H, T, S)
        options = {"bias": bias, "dropout_p": self.dropout_p}
        return shifted_window_attention(query, key, value, self.grid, self.window, self.shift, **options)


class BucketedAttention(EfficientAttention):
    """Attention among tokens that hashing puts into one bucket (Reformer); queries and keys share their weights.

    Loading the state of a ``MultiHeadAttention`` keeps the weights of its queries; those of its keys are left out.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_heads: Number of heads H.
        dropout: Probability with which an attention weight is dropped in training.
        bias: Whether the linear layers have a bias.
        causal: Whether tokens look at the past and themselves only.
        num_buckets: Number of buckets, an even number; chunks of one bucket's size, T / num_buckets, are a good choice.
        chunk_size: Tokens of one chunk; a token looks at its own chunk and the one before.
        rounds: Number of hashes.
        seed: Seed of the random directions.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> attend, x = BucketedAttention(8, 2, num_buckets=4, chunk_size=4), torch.randn(1, 9, 8)
        >>> attend(x, x, x).shape
        torch.Size([1, 9, 8])

    Source:
        Kitaev et al. 2020, arXiv:2001.04451.
    """

    any_memory = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.1,
        *,
        bias: bool = True,
        causal: bool = False,
        num_buckets: int = 8,
        chunk_size: int = 32,
        rounds: int = 2,
        seed: int = 0,
    ) -> None:
        super().__init__(embed_dim, num_heads, dropout, bias=bias, causal=causal)
        check_count("BucketedAttention", "chunk_size", chunk_size)
        self.chunk_size, self.key = chunk_size, self.query  # one layer under both names
        generator = torch.Generator().manual_seed(seed)
        drawn = draw_rotations(rounds, self.head_dim, num_buckets, generator=generator)
        self.register_buffer("rotations", drawn.to(self.proj.weight))

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        shared = self.query(query)
        return shared, shared, self.value(value)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Mix the values of a bucket.

        Args:
            query: (N, H, T, K).
            key: The same.
            value: (N, H, T, K).
            key_mask: (N, T), True = a real token, or None.

        Returns:
            (N, H, T, K).
        """
        options = {"causal": self.causal, "key_mask": key_mask, "dropout_p": self.dropout_p}
        return bucket_attention(query, value, self.rotations, chunk_size=self.chunk_size, **options)


def alternate_shifts(model: nn.Module) -> nn.Module:
    """Shift the windows of every second window layer by half a window, so that neighbours across borders meet.

    Args:
        model: A model with ``ShiftedWindowAttention`` layers; changed in place.

    Returns:
        The same model.

    Raises:
        ValueError: If it has no such layer.

    Example:
        >>> attend = ShiftedWindowAttention(8, 2, grid=(4, 4), window=2)
        >>> [layer.shift for layer in alternate_shifts(nn.ModuleList([attend]))]
        [0]
    """
    layers = [module for module in model.modules() if isinstance(module, ShiftedWindowAttention)]
    if not layers:
        fix = 'build the model with attention=builder("shifted window", grid=...)'
        raise ValueError(explain("alternate_shifts", "model", "one with window layers", type(model).__name__, fix))
    for index, layer in enumerate(layers):
        layer.shift = index % 2 * (layer.window // 2)
    return model
