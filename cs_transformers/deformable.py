"""Deformable attention: each query looks at a few points that it chooses itself, on feature maps of several sizes.

Letters: N batch, T queries, L levels (feature maps), S their cells together, D model width, H heads, K = D/H, P points
per head and level. Places are (x, y), fractions of the padded image; sizes are (h, w) in cells. Masks: True = real.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .blocks import FeedForwardNetwork, clone_layers, with_pos
from .detection import BoxHead, ConvPyramid, Outputs, check_images, level_mask, sine_grid
from .errors import check_count, check_shape, check_tensor, explain
from .proposals import EncoderProposals, Queries

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

Sizes = Sequence[tuple[int, int]]


def sampling_locations(reference: Tensor, offsets: Tensor, sizes: Sizes) -> Tensor:
    """Place the points at which a query looks around its reference.

    Around a reference point an offset counts cells of the level: x + dx / w. Around a reference box it counts parts of
    the box: an offset of P reaches its edge, x + dx / P * (width of the box) / 2.

    Args:
        reference: (N, T, L, 2) points (x, y), or (N, T, L, 4) boxes (cx, cy, w, h).
        offsets: (N, T, H, L, P, 2) as (dx, dy).
        sizes: (h, w) of each level in cells.

    Returns:
        (N, T, H, L, P, 2) places (x, y); those outside [0, 1] see nothing.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a shape does not fit.

    Example:
        >>> offsets = torch.ones(1, 1, 1, 1, 1, 2)
        >>> sampling_locations(torch.zeros(1, 1, 1, 2), offsets, [(4, 8)]).flatten()
        tensor([0.1250, 0.2500])

    Source:
        Zhu et al. 2020, equation 3 and appendix A.4, arXiv:2010.04159.
    """
    who, levels = "sampling_locations", len(sizes)
    check_tensor(who, "offsets", offsets)
    check_shape(who, "offsets", offsets, N=None, T=None, H=None, L=levels, P=None, two=2)
    check_tensor(who, "reference", reference)
    if tuple(reference.shape) not in {(*offsets.shape[:2], levels, last) for last in (2, 4)}:
        expected = f"of shape (N, T, L, 2) or (N, T, L, 4) = {(*offsets.shape[:2], levels)} and 2 or 4"
        fix = "give one point (x, y) or one box (cx, cy, w, h) per query and level"
        raise ValueError(explain(who, "reference", expected, tuple(reference.shape), fix))
    cells = offsets.new_tensor([[width, height] for height, width in sizes]).unsqueeze(1)  # (L, 1, 2)
    reference = reference[:, :, None, :, None]  # (N, T, 1, L, 1, 2 or 4)
    # Exercise 8.5: the two formulas of the docstring (about 4 lines). `cells` (L, 1, 2) holds (w, h) of each level, and
    # `reference` already has the axes of `offsets`, the last one 2 or 4 long.
    ### BEGIN SOLUTION 8.5
    if reference.shape[-1] == 2:
        return reference + offsets / cells
    points = offsets.shape[-2]
    return reference[..., :2] + offsets / points * reference[..., 2:] / 2
    ### END SOLUTION 8.5


def sample_levels(value: Tensor, sizes: Sizes, locations: Tensor, weights: Tensor) -> Tensor:
    """Read feature maps at chosen places, between cells by bilinear weights, and mix what is read.

    Args:
        value: (N, S, H, K) cells of all levels, level after level, row by row.
        sizes: (h, w) of each level.
        locations: (N, T, H, L, P, 2) places (x, y) in [0, 1]; outside, everything is 0.
        weights: (N, T, H, L, P) shares.

    Returns:
        (N, T, D), the heads side by side.

    Example:
        >>> value = torch.arange(4.0).view(1, 4, 1, 1)
        >>> middle = torch.full((1, 1, 1, 1, 1, 2), 0.5)
        >>> sample_levels(value, [(2, 2)], middle, torch.ones(1, 1, 1, 1, 1))
        tensor([[[1.5000]]])
    """
    N, _, H, _ = value.shape
    maps = value.permute(0, 2, 3, 1).flatten(0, 1).split([h * w for h, w in sizes], dim=-1)  # L times (N*H, K, h*w)
    # The points come before the queries: sums over P then run over whole rows of T, which processors do fastest.
    grids = (2 * locations - 1).permute(3, 0, 2, 4, 1, 5).flatten(1, 2)  # (L, N*H, P, T, 2)
    shares = weights.permute(3, 0, 2, 4, 1).flatten(1, 2).unsqueeze(2)  # (L, N*H, 1, P, T)
    mixed = value.new_zeros(())
    for fmap, size, grid, share in zip(maps, sizes, grids, shares, strict=True):
        read = F.grid_sample(fmap.unflatten(-1, size), grid, "bilinear", "zeros", align_corners=False)
        mixed = mixed + (read * share).sum(dim=2)  # (N*H, K, T)
    return mixed.unflatten(0, (N, H)).flatten(1, 2).transpose(1, 2)  # (N, T, D)


class DeformableAttention(nn.Module):
    """Attention at a few points instead of everywhere, on several feature maps at once.

    A linear layer of the query says where to look, another with what share; the keys have no say. The cost grows with
    the number of cells, not with its square.

    Args:
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_levels: Number of feature maps L.
        num_heads: Number of heads H.
        num_points: Points per head and level P.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is not positive, or D no multiple of H.

    Example:
        >>> attend = DeformableAttention(embed_dim=8, num_levels=2, num_heads=2, num_points=3)
        >>> memory, reference = torch.zeros(1, 4 * 6 + 2 * 3, 8), torch.full((1, 5, 2, 2), 0.5)
        >>> attend(torch.zeros(1, 5, 8), reference, memory, [(4, 6), (2, 3)]).shape
        torch.Size([1, 5, 8])

    Source:
        Zhu et al. 2020, section 4.1, arXiv:2010.04159.
    """

    def __init__(self, embed_dim: int = 256, num_levels: int = 4, num_heads: int = 8, num_points: int = 4) -> None:
        super().__init__()
        who = "DeformableAttention"
        sizes = {"embed_dim": embed_dim, "num_levels": num_levels, "num_heads": num_heads, "num_points": num_points}
        for name, size in sizes.items():
            check_count(who, name, size)
        if embed_dim % num_heads:
            fix = f"use {embed_dim - embed_dim % num_heads or num_heads} or another number of heads"
            raise ValueError(explain(who, "embed_dim", f"a multiple of num_heads = {num_heads}", embed_dim, fix))
        self.embed_dim, self.num_levels, self.num_heads, self.num_points = embed_dim, num_levels, num_heads, num_points
        self.sampling_offsets = nn.Linear(embed_dim, num_heads * num_levels * num_points * 2)
        self.attention_weights = nn.Linear(embed_dim, num_heads * num_levels * num_points)
        self.value_proj = nn.Linear(embed_dim, embed_dim)
        self.output_proj = nn.Linear(embed_dim, embed_dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start by looking in rings: each head in its own direction, point p at a distance of p + 1 cells."""
        nn.init.zeros_(self.sampling_offsets.weight)
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(first_offsets(self.num_heads, self.num_levels, self.num_points).flatten())
        nn.init.zeros_(self.attention_weights.weight)
        nn.init.zeros_(self.attention_weights.bias)
        for layer in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, query: Tensor, reference: Tensor, memory: Tensor, sizes: Sizes, *, key_mask: Tensor | None = None
    ) -> Tensor:
        """Read the memory at the points that the queries choose.

        Args:
            query: (N, T, D) tokens that ask.
            reference: (N, T, L, 2) points (x, y) or (N, T, L, 4) boxes around which they look.
            memory: (N, S, D) cells of all levels, level after level, row by row.
            sizes: (h, w) of each level; their products sum to S.
            key_mask: (N, S) bool, True = a real cell; padding reads as 0.

        Returns:
            (N, T, D).

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit.
        """
        self._check(query, memory, sizes, key_mask)
        value = self.value_proj(memory)  # (N, S, D)
        if key_mask is not None:
            value = value.masked_fill(~key_mask.unsqueeze(-1), 0.0)
        locations, weights = self.points(query, reference, sizes)
        mixed = sample_levels(value.unflatten(-1, (self.num_heads, -1)), sizes, locations, weights)  # (N, T, D)
        return self.output_proj(mixed)

    def points(self, query: Tensor, reference: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
        """Say where each query looks and with what shares.

        Args:
            query: (N, T, D) tokens that ask.
            reference: (N, T, L, 2) points or (N, T, L, 4) boxes.
            sizes: (h, w) of each level.

        Returns:
            Places (N, T, H, L, P, 2) and shares (N, T, H, L, P), which sum to 1 over levels and points together.
        """
        axes = (self.num_heads, self.num_levels, self.num_points)
        offsets = self.sampling_offsets(query).unflatten(-1, (*axes, 2))  # (N, T, H, L, P, 2)
        shares = self.attention_weights(query).unflatten(-1, (self.num_heads, -1)).softmax(dim=-1)  # (N, T, H, L*P)
        return sampling_locations(reference, offsets, sizes), shares.unflatten(-1, axes[1:])

    def _check(self, query: Tensor, memory: Tensor, sizes: Sizes, key_mask: Tensor | None) -> None:
        who = "DeformableAttention"
        for name, tensor, length in (("query", query, "T"), ("memory", memory, "S")):
            check_tensor(who, name, tensor)
            check_shape(who, name, tensor, "tokens come batch first", **{"N": None, length: None, "D": self.embed_dim})
        if len(sizes) != self.num_levels:
            fix = "give (h, w) of each feature map"
            raise ValueError(explain(who, "sizes", f"of {self.num_levels} levels", len(sizes), fix))
        cells = sum(height * width for height, width in sizes)
        if cells != memory.shape[1]:
            fix = "flatten every level and put one after the other"
            raise ValueError(explain(who, "memory", f"of S = {cells} cells like sizes", memory.shape[1], fix))
        if key_mask is not None:
            check_shape(who, "key_mask", key_mask, "one entry per cell", N=len(memory), S=cells)


def first_offsets(num_heads: int, num_levels: int, num_points: int) -> Tensor:
    """Give the offsets to start with: as many directions as heads, on squares of growing size.

    Args:
        num_heads: Number of heads H.
        num_levels: Number of levels L.
        num_points: Points per head and level P.

    Returns:
        (H, L, P, 2) as (dx, dy).

    Example:
        >>> first_offsets(4, 1, 2)[:, 0, 1].round().int().tolist()
        [[2, 0], [0, 2], [-2, 0], [0, -2]]
    """
    angle = torch.arange(num_heads, dtype=torch.float32) * (2 * math.pi / num_heads)
    direction = torch.stack((angle.cos(), angle.sin()), dim=-1)  # (H, 2)
    direction = direction / direction.abs().max(dim=-1, keepdim=True).values
    steps = torch.arange(1, num_points + 1, dtype=torch.float32).unsqueeze(-1)  # (P, 1)
    return (direction[:, None, None] * steps).expand(num_heads, num_levels, num_points, 2)


def _joined(x: Tensor, change: Tensor, dropout: nn.Module, norm: nn.Module) -> Tensor:
    return norm(x + dropout(change))


class DeformableEncoderLayer(nn.Module):
    """Every cell of every level looks at a few points near it, then is worked on.

    Args:
        embed_dim: Model width D.
        num_heads: Number of heads.
        dim_feedforward: Inner width of the feed-forward network.
        dropout: Probability of dropout.
        num_levels: Number of levels.
        num_points: Points per head and level.

    Source:
        Zhu et al. 2020, section 4.1, arXiv:2010.04159.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dim_feedforward: int, dropout: float, num_levels: int, num_points: int
    ) -> None:
        super().__init__()
        self.self_attn = DeformableAttention(embed_dim, num_levels, num_heads, num_points)
        self.ffn = FeedForwardNetwork(embed_dim, dim_feedforward, dropout, activation="relu")
        self.norm_self, self.norm_ffn = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.dropout_self, self.dropout_ffn = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, src: Tensor, pos: Tensor, reference: Tensor, sizes: Sizes, key_mask: Tensor | None) -> Tensor:
        """Let the cells look around.

        Args:
            src: (N, S, D) cells of all levels.
            pos: (N, S, D) or (1, S, D) their positions, added to the queries.
            reference: (N, S, L, 2) where each lies, on every level.
            sizes: (h, w) of each level.
            key_mask: (N, S) bool, True = a real cell; None: all.

        Returns:
            (N, S, D).
        """
        attended = self.self_attn(with_pos(src, pos), reference, src, sizes, key_mask=key_mask)
        src = _joined(src, attended, self.dropout_self, self.norm_self)
        return _joined(src, self.ffn(src), self.dropout_ffn, self.norm_ffn)


class DeformableDecoderLayer(nn.Module):
    """Queries look at each other, then at a few points of the levels, then are worked on.

    Args:
        embed_dim: Model width D.
        num_heads: Number of heads.
        dim_feedforward: Inner width of the feed-forward network.
        dropout: Probability of dropout.
        num_levels: Number of levels.
        num_points: Points per head and level.

    Source:
        Zhu et al. 2020, section 4.1, arXiv:2010.04159.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dim_feedforward: int, dropout: float, num_levels: int, num_points: int
    ) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(embed_dim, num_heads, dropout)
        self.cross_attn = DeformableAttention(embed_dim, num_levels, num_heads, num_points)
        self.ffn = FeedForwardNetwork(embed_dim, dim_feedforward, dropout, activation="relu")
        self.norm_self, self.norm_cross = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.norm_ffn = nn.LayerNorm(embed_dim)
        self.dropout_self, self.dropout_cross = nn.Dropout(dropout), nn.Dropout(dropout)
        self.dropout_ffn = nn.Dropout(dropout)
        for layer in (self.self_attn.query, self.self_attn.key, self.self_attn.value, self.self_attn.proj):
            nn.init.xavier_uniform_(layer.weight)

    def forward(
        self, tgt: Tensor, query_pos: Tensor, reference: Tensor, memory: Tensor, sizes: Sizes, key_mask: Tensor | None
    ) -> Tensor:
        """Let the queries look.

        Args:
            tgt: (N, Q, D) states of the queries.
            query_pos: (N, Q, D) what they ask for, added to queries and keys.
            reference: (N, Q, L, 2 or 4) where each of them looks, on every level.
            memory: (N, S, D) from the encoder.
            sizes: (h, w) of each level.
            key_mask: (N, S) bool, True = a real cell; None: all.

        Returns:
            (N, Q, D).
        """
        asked = with_pos(tgt, query_pos)
        tgt = _joined(tgt, self.self_attn(asked, asked, tgt), self.dropout_self, self.norm_self)
        attended = self.cross_attn(with_pos(tgt, query_pos), reference, memory, sizes, key_mask=key_mask)
        tgt = _joined(tgt, attended, self.dropout_cross, self.norm_cross)
        return _joined(tgt, self.ffn(tgt), self.dropout_ffn, self.norm_ffn)


class Levels(NamedTuple):
    """The feature maps of a batch as one row of tokens.

    Args:
        tokens: (N, S, D) cells, level after level, row by row.
        pos: (N, S, D) or (1, S, D) positions and level embeddings.
        sizes: (h, w) of each level.
        key_mask: (N, S) bool, True = a real cell; None: all.
        ratios: (N, L, 2) as (x, y), how much of each level is real.
    """

    tokens: Tensor
    pos: Tensor
    sizes: list[tuple[int, int]]
    key_mask: Tensor | None
    ratios: Tensor


class RealGroupNorm(nn.GroupNorm):
    """Group norm whose mean and variance leave padding out, so that a padded image is normed as it is alone."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Norm a feature map.

        Args:
            x: (N, C, h, w).
            real: (N, h, w) bool, True = a real cell; None: all.

        Returns:
            (N, C, h, w).
        """
        if real is None:
            return super().forward(x)
        groups = x.unflatten(1, (self.num_groups, -1))  # (N, G, C/G, h, w)
        share = real[:, None, None].to(x.dtype)
        share = share / (
            share.sum(dim=(2, 3, 4), keepdim=True) * groups.shape[2]
        )  # sums to 1 over a group's real cells
        mean = (groups * share).sum(dim=(2, 3, 4), keepdim=True)
        spread = ((groups - mean) ** 2 * share).sum(dim=(2, 3, 4), keepdim=True)
        normed = ((groups - mean) / (spread + self.eps).sqrt()).flatten(1, 2)  # (N, C, h, w)
        return normed * self.weight[:, None, None] + self.bias[:, None, None]


class DeformableDetectionTransformer(nn.Module):
    """Deformable DETR: attention at a few points makes feature maps of several sizes affordable.

    Classes are judged one by one, so that the logits have no column for "no object".

    Args:
        num_classes: Number of classes K, as many columns as the logits have.
        num_queries: Number of object queries Q.
        embed_dim: Model width D, a multiple of 4.
        num_heads: Number of heads H.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Inner width of the feed-forward networks.
        dropout: Probability of dropout.
        backbone: Module from images and a mask of real pixels to feature maps, with the list ``channels``; None takes a
            ``ConvPyramid`` with maps of 1/8 and 1/16 of the image's size.
        num_levels: Number of levels L; where the backbone has fewer maps, convolutions of stride 2 make the rest.
        num_points: Points per head and level P.
        refine: Let each decoder layer correct the boxes of the layer before, with heads of its own.
        two_stage: Make the queries of what the encoder sees, in place of learned ones; with ``refine`` alone.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit, or ``two_stage`` is on without ``refine``.

    Example:
        >>> sizes = {"embed_dim": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2}
        >>> model = DeformableDetectionTransformer(3, num_queries=5, dim_feedforward=32, num_levels=2, **sizes)
        >>> outputs = model(torch.zeros(2, 3, 64, 64))
        >>> outputs["pred_logits"].shape, outputs["pred_boxes"].shape
        (torch.Size([2, 5, 3]), torch.Size([2, 5, 4]))

    Source:
        Zhu et al. 2020, arXiv:2010.04159.
    """

    def __init__(
        self,
        num_classes: int,
        num_queries: int = 300,
        embed_dim: int = 256,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 1024,
        dropout: float = 0.1,
        *,
        backbone: nn.Module | None = None,
        num_levels: int = 4,
        num_points: int = 4,
        refine: bool = False,
        two_stage: bool = False,
    ) -> None:
        super().__init__()
        if two_stage and not refine:
            fix = "pass refine=True too: the decoder goes on from the proposed boxes"
            raise ValueError(explain("DeformableDetectionTransformer", "two_stage", "off without refine", True, fix))
        for name, count in (("num_classes", num_classes), ("num_queries", num_queries), ("num_levels", num_levels)):
            check_count("DeformableDetectionTransformer", name, count)
        self.num_classes, self.num_queries, self.embed_dim = num_classes, num_queries, embed_dim
        self.refine, self.two_stage = refine, two_stage
        self.backbone = _small_pyramid(num_levels) if backbone is None else backbone
        self.input_proj = nn.ModuleList(_projections(self.backbone.channels, embed_dim, num_levels))
        self.level_embed = nn.Parameter(torch.randn(num_levels, embed_dim))
        options = (embed_dim, num_heads, dim_feedforward, dropout, num_levels, num_points)
        self.encoder = nn.ModuleList(DeformableEncoderLayer(*options) for _ in range(num_encoder_layers))
        self.decoder = nn.ModuleList(DeformableDecoderLayer(*options) for _ in range(num_decoder_layers))
        if two_stage:
            self.proposals = EncoderProposals(embed_dim, num_queries)
        else:
            self.query_embed = nn.Embedding(num_queries, 2 * embed_dim)
            self.reference_points = nn.Linear(embed_dim, 2)
            nn.init.xavier_uniform_(self.reference_points.weight)
            nn.init.zeros_(self.reference_points.bias)
        self._build_heads(num_decoder_layers)

    def _build_heads(self, num_layers: int) -> None:
        of_class, of_box = nn.Linear(self.embed_dim, self.num_classes), BoxHead(self.embed_dim)
        nn.init.constant_(of_class.bias, -math.log(99))  # a first guess of 1 % keeps the focal loss small
        nn.init.zeros_(of_box.layers[-1].weight)
        size = 0.0 if self.two_stage else -2.0  # proposals have one, points start with small boxes
        with torch.no_grad():
            of_box.layers[-1].bias.copy_(torch.tensor([0.0, 0.0, size, size]))
        if not self.refine:
            self.class_embed, self.bbox_embed = nn.ModuleList([of_class]), nn.ModuleList([of_box])
            return
        self.class_embed, self.bbox_embed = clone_layers(of_class, num_layers), clone_layers(of_box, num_layers)
        for head in self.bbox_embed[1:]:  # later layers start by leaving the box as it is
            nn.init.zeros_(head.layers[-1].bias)

    def forward(self, images: Tensor, pixel_mask: Tensor | None = None) -> Outputs:
        """Predict a set of objects.

        Args:
            images: (N, 3, H, W) in [0, 1], or uint8; smaller ones padded at the right and the bottom.
            pixel_mask: (N, H, W), True or nonzero = a real pixel; None: all are.

        Returns:
            "pred_logits" (N, Q, K) and "pred_boxes" (N, Q, 4) as (cx, cy, w, h) in fractions of the real image, and
            "aux_outputs", the same for each decoder layer before the last; with ``two_stage`` also "enc_outputs", what
            the encoder's cells propose, with one column of logits.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit, or with ``two_stage`` an image has fewer cells than there are queries.
        """
        who = "DeformableDetectionTransformer"
        images, real = check_images(who, images, pixel_mask, self.level_embed)
        levels = self.see(images, real)
        memory, centres = levels.tokens, _cell_centres(levels)  # (N, S, D), (N, S, 2)
        places = centres.unsqueeze(2) * levels.ratios.unsqueeze(1)  # (N, S, L, 2)
        for layer in self.encoder:
            memory = layer(memory, levels.pos, places, levels.sizes, levels.key_mask)
        if not self.two_stage:
            layers = self.decode(memory, levels)
            return {**layers[-1], "aux_outputs": layers[:-1]}
        queries, proposed = self.proposals(memory, centres, levels.sizes, levels.key_mask)
        layers = self.decode(memory, levels, queries)
        return {**layers[-1], "aux_outputs": layers[:-1], "enc_outputs": proposed}

    def see(self, images: Tensor, real: Tensor | None = None) -> Levels:
        """Look at images and lay their feature maps out as tokens.

        Args:
            images: (N, 3, H, W) in [0, 1].
            real: (N, H, W) bool, True = a real pixel; None: all.

        Returns:
            The levels.
        """
        maps, sources = self.backbone(images, real), []
        for index, projection in enumerate(self.input_proj):
            source = maps[index] if index < len(maps) else (maps[-1] if index == len(maps) else sources[-1])
            if real is not None:
                source = source * level_mask(real, source.shape[-2:]).unsqueeze(1)
            fmap = projection[0](source)  # (N, D, h, w)
            sources.append(projection[1](fmap, None if real is None else level_mask(real, fmap.shape[-2:])))
        # Without padding the positions are the same for all images, and are computed once.
        cells = [level_mask(real, fmap.shape[-2:], like=fmap[:1]) for fmap in sources]  # L times (N or 1, h, w)
        grids = [sine_grid(mask, self.embed_dim, shift=-0.5).flatten(1, 2).to(images.dtype) for mask in cells]
        pos = [grid + level for grid, level in zip(grids, self.level_embed, strict=True)]
        tokens = torch.cat([fmap.flatten(2).transpose(1, 2) for fmap in sources], dim=1)  # (N, S, D)
        ratios = [torch.stack((mask[:, 0].double().mean(1), mask[:, :, 0].double().mean(1)), -1) for mask in cells]
        key_mask = None if real is None else torch.cat([mask.flatten(1) for mask in cells], dim=1)
        sizes = [tuple(fmap.shape[-2:]) for fmap in sources]
        shares = torch.stack(ratios, dim=1).to(tokens.dtype).expand(len(tokens), -1, -1)  # (N, L, 2)
        return Levels(tokens, torch.cat(pos, dim=1), sizes, key_mask, shares)

    def decode(self, memory: Tensor, levels: Levels, queries: Queries | None = None) -> list[dict[str, Tensor]]:
        """Let the queries look at the memory, layer by layer, and read off classes and boxes after each.

        Args:
            memory: (N, S, D) from the encoder.
            levels: What ``see`` gave.
            queries: What to start from; None for the learned queries.

        Returns:
            "pred_logits" (N, Q, K) and "pred_boxes" (N, Q, 4) of every decoder layer.
        """
        # The reference has (N, Q, 2) or (N, Q, 4), with refinement (N, Q, 4) after the first layer.
        state, query_pos, reference = self._learned_queries(len(memory)) if queries is None else queries
        layers = []
        for index, layer in enumerate(self.decoder):
            scale = levels.ratios.repeat(1, 1, reference.shape[-1] // 2).unsqueeze(1)  # (N, 1, L, 2 or 4)
            placed = reference.unsqueeze(2) * scale  # (N, Q, L, 2 or 4)
            state = layer(state, query_pos, placed, memory, levels.sizes, levels.key_mask)
            head = index if self.refine else 0
            change = self.bbox_embed[head](state)  # (N, Q, 4)
            start = F.pad(torch.logit(reference, eps=1e-5), (0, 4 - reference.shape[-1]))
            boxes = (change + start).sigmoid()
            layers.append({"pred_logits": self.class_embed[head](state), "pred_boxes": boxes})
            reference = boxes.detach() if self.refine else reference
        return layers

    def _learned_queries(self, count: int) -> Queries:
        pos, state = self.query_embed.weight.expand(count, -1, -1).chunk(2, dim=-1)  # (N, Q, D) each
        return Queries(state, pos, self.reference_points(pos).sigmoid())


def _small_pyramid(num_levels: int) -> ConvPyramid:
    return ConvPyramid((16, 32, 64, 64), (2, 2, 2, 2), levels=min(num_levels, 2))


def _projections(channels: Sequence[int], width: int, num_levels: int) -> Iterator[nn.ModuleList]:
    """1x1 convolutions from the backbone's maps, then 3x3 of stride 2 for the levels that it lacks."""
    groups = math.gcd(32, width)
    for index in range(num_levels):
        if index < len(channels):
            layer = nn.Conv2d(channels[index], width, kernel_size=1)
        else:
            before = channels[-1] if index == len(channels) else width
            layer = nn.Conv2d(before, width, kernel_size=3, stride=2, padding=1)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
        yield nn.ModuleList([layer, RealGroupNorm(groups, width)])


def _cell_centres(levels: Levels) -> Tensor:
    """Where the middle of each cell lies, as fractions of the real image: (N, S, 2)."""
    ratios, centres = levels.ratios, []
    for index, (height, width) in enumerate(levels.sizes):
        y, x = (torch.arange(n, dtype=ratios.dtype, device=ratios.device).add(0.5) / n for n in (height, width))
        grid = torch.stack((x.expand(height, width), y[:, None].expand(height, width)), dim=-1).flatten(0, 1)
        centres.append(grid / ratios[:, None, index])  # (N, h*w, 2)
    return torch.cat(centres, dim=1)


@contextmanager
def recorded_points(model: nn.Module) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Watch where a model looks: keep the points of every deformable attention inside it while the block runs.

    Args:
        model: A module with ``DeformableAttention`` layers somewhere inside, or one itself.

    Yields:
        For each layer, by its name in the model, places (N, T, H, L, P, 2) and shares (N, T, H, L, P) of every call.

    Raises:
        ValueError: If it has no ``DeformableAttention``.

    Example:
        >>> attend = DeformableAttention(embed_dim=8, num_levels=1, num_heads=2, num_points=3)
        >>> with recorded_points(attend) as points:
        ...     _ = attend(torch.zeros(1, 5, 8), torch.full((1, 5, 1, 2), 0.5), torch.zeros(1, 6, 8), [(2, 3)])
        >>> points[""][0][0].shape
        torch.Size([1, 5, 2, 1, 3, 2])
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, DeformableAttention)}
    if not layers:
        fix, expected = "pass a DeformableDetectionTransformer", "one with DeformableAttention layers"
        raise ValueError(explain("recorded_points", "model", expected, type(model).__name__, fix))
    record: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}

    def keep(seen: list[tuple[Tensor, Tensor]]) -> object:
        def hook(layer: DeformableAttention, inputs: tuple) -> None:
            query, reference, _, sizes = inputs
            places, shares = layer.points(query, reference, sizes)
            seen.append((places.detach(), shares.detach()))

        return hook

    handles = [layer.register_forward_pre_hook(keep(record[name])) for name, layer in layers.items()]
    try:
        yield record
    finally:
        for handle in handles:
            handle.remove()
