"""Start values that spare a small ViT what a few thousand steps are too few to find out.

Three things hold for every photo and need not be learned: which patterns of pixels occur in patches, how the grid of
patches lies in the plane, and that neighbouring patches belong together. Here they are written into the weights before
the first step; training changes all of them.

Letters: P patches, D model width, H heads, K = D/H head width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cs_transformers.attention import MultiHeadAttention
from cs_transformers.blocks import TransformerEncoderLayer
from cs_transformers.errors import explain
from cs_transformers.positional import LearnedPositionalEncoding
from cs_transformers.vit import PatchEmbedding, VisionTransformer

Offset = tuple[int, int]

# (rows, columns) from a patch to the one that a head looks at, four heads in each of four layers: side by side, then
# across, then two steps apart. Together the layers reach every patch of a small image.
NEIGHBOURS: tuple[tuple[Offset, ...], ...] = (
    ((0, 1), (0, -1), (1, 0), (-1, 0)),
    ((1, 1), (1, -1), (-1, 1), (-1, -1)),
    ((0, 2), (0, -2), (2, 0), (-2, 0)),
    ((2, 2), (2, -2), (-2, 2), (-2, -2)),
)


def whitening_filters(patches: Tensor, *, floor: float = 0.01) -> Tensor:
    """Find the filters whose answers to image patches are uncorrelated and about equally strong.

    Pixels of a patch are nearly copies of each other: without this, all tokens differ mainly by their brightness. Row k
    is the k-th principal direction over the root of its variance plus ``floor``.

    Args:
        patches: (M, patch_dim) flattened patches of training images, M large.
        floor: Variance below which a direction is noise, and is not amplified.

    Returns:
        (patch_dim, patch_dim), the direction of the largest variance first.

    Raises:
        ValueError: If ``patches`` are fewer than their entries.

    Example:
        >>> grey = torch.randn(500, 1, generator=torch.Generator().manual_seed(0)) * torch.ones(1, 2)
        >>> filters = whitening_filters(grey)
        >>> round((grey @ filters.T).var(dim=0)[0].item(), 1)
        1.0

    Source:
        Jordan 2024, 94% on CIFAR-10 in 3.29 seconds, section 3.2, arXiv:2404.00498.
    """
    if patches.dim() != 2 or len(patches) <= patches.shape[1]:
        expected = "of shape (M, patch_dim) with M above patch_dim"
        fix = "pass the flattened patches of more images"
        raise ValueError(explain("whitening_filters", "patches", expected, tuple(patches.shape), fix))
    centred = (patches - patches.mean(dim=0)).double()
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(centred))  # ascending, (patch_dim, patch_dim)
    # The sign of an eigenvector is the library's choice; the largest entry positive is everybody's.
    largest = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))  # (1, patch_dim)
    filters = directions * largest.sign() / (variances.clamp(min=0) + floor).sqrt()
    return filters.flip(1).T.to(patches.dtype)


def grid_waves(rows: int, columns: int, width: int) -> Tensor:
    """Write the place of every patch as cosines and sines of its row, then of its column.

    A half wave over the grid, three half waves, five, ...: the dot product of two places depends on their distance
    alone, and is largest at distance 0.

    Args:
        rows: Rows of patches.
        columns: Columns of patches.
        width: Numbers per patch, a multiple of 4.

    Returns:
        (rows * columns, width), row by row; pairs (cos, sin) of one frequency stand side by side.

    Raises:
        ValueError: If ``width`` is no multiple of 4.

    Example:
        >>> grid_waves(2, 2, 4)[0]
        tensor([1., 0., 1., 0.])
    """
    if width < 4 or width % 4:
        raise ValueError(explain("grid_waves", "width", "a multiple of 4", width, "give a pair per axis and frequency"))
    turns = [torch.arange(size)[:, None] * _frequencies(size, width // 4) for size in (rows, columns)]
    waves = [torch.stack((turn.cos(), turn.sin()), dim=-1).flatten(1) for turn in turns]  # (rows or columns, width / 2)
    down, across = waves[0][:, None].expand(-1, columns, -1), waves[1][None].expand(rows, -1, -1)
    return torch.cat((down, across), dim=-1).flatten(0, 1)  # (rows * columns, width)


def start_from_images(
    model: VisionTransformer,
    images: Tensor,
    *,
    neighbours: Sequence[Sequence[Offset]] = NEIGHBOURS,
    sharpness: float = 3.0,
    generator: torch.Generator | None = None,
) -> None:
    """Give a ViT with learned positions its start values, in place.

    The first K channels of a token hold its place, the others what its patch shows, through whitening filters. Queries
    and keys compare places, so that each head looks at one neighbour; all other matrices of the layers are orthogonal
    and leave the places as they are.

    Args:
        model: Pre-norm VisionTransformer with the mean of the tokens as output and ``positions="learned"``.
        images: (M, C, H, W) normalised training images; a few thousand are enough.
        neighbours: Per layer, per head, the (rows, columns) from a patch to the one looked at.
        sharpness: How much larger the score of the neighbour is than that of a patch far away, halved; at 3 a head
            puts about 0.4 of its weight there.
        generator: Random stream of the orthogonal matrices, or None for torch's own.

    Raises:
        ValueError: If the model is of another kind, or ``neighbours`` do not fit its layers and heads.
    """
    _check_model(model, neighbours)
    places = model.transformer.layers[0].self_attn.head_dim
    rows, columns = model.patch_embed.grid
    with torch.no_grad():
        model.positional_encoding.pe.zero_()
        model.positional_encoding.pe[0, :, :places] = grid_waves(rows, columns, places)
        _start_patches(model.patch_embed, images, places, generator)
        for layer, offsets in zip(model.transformer.layers, neighbours, strict=True):
            _start_layer(layer, places, generator)
            look_at_neighbours(layer.self_attn, offsets, (rows, columns), sharpness=sharpness)


def look_at_neighbours(
    attention: MultiHeadAttention, offsets: Sequence[Offset], grid: tuple[int, int], *, sharpness: float = 3.0
) -> None:
    """Let queries and keys compare places, in place: each head of a layer looks at one neighbour.

    The key keeps the waves of its own place; the query turns those of its place by the angle of the offset, so that
    the dot product is largest where the key stands at the offset. Low frequencies weigh more, which makes the peak
    smooth. What the tokens show has no say at first, but for the little that is in the weights already.

    Args:
        attention: Attention whose query and key weights are changed in their first K columns.
        offsets: One (rows, columns) per head.
        grid: Rows and columns of patches.
        sharpness: How much larger the score of the neighbour is than that of a patch far away, halved.

    Example:
        >>> attention = MultiHeadAttention(embed_dim=8, num_heads=2)
        >>> look_at_neighbours(attention, [(0, 1), (1, 0)], grid=(3, 3))
        >>> bool(attention.query.weight.isfinite().all())
        True

    Source:
        Cordonnier, Loukas and Jaggi 2020, On the relationship between self-attention and convolutional layers,
        section 3, arXiv:1911.03584 (heads at fixed offsets); the waves are those of :func:`grid_waves`.
    """
    places = attention.head_dim
    weights = [torch.exp(-2 * (torch.arange(places // 4) + 0.5) ** 2 / (places // 4) ** 2)] * 2
    strength = sharpness * places**0.5 * torch.cat([weight / weight.sum() for weight in weights])  # (K / 2,)
    strength = strength.sqrt().repeat_interleave(2)  # (K,), shared out to query and key
    with torch.no_grad():
        for head, offset in enumerate(offsets):
            mine = slice(head * places, (head + 1) * places)
            angles = [step * _frequencies(size, places // 4) for step, size in zip(offset, grid, strict=True)]
            turns = [torch.stack((torch.stack((a.cos(), -a.sin())), torch.stack((a.sin(), a.cos())))) for a in angles]
            turn = torch.block_diag(*torch.cat(turns, dim=-1).unbind(-1))  # (K, K)
            attention.query.weight[mine, :places] = strength[:, None] * turn
            attention.key.weight[mine, :places] = torch.diag(strength)


def _frequencies(size: int, count: int) -> Tensor:
    """Angles per patch of 1/2, 3/2, 5/2, ... half turns over a side: no two places of the grid are alike."""
    return (torch.arange(count) + 0.5) * math.pi / size


def _start_patches(embed: PatchEmbedding, images: Tensor, places: int, generator: torch.Generator | None) -> None:
    """Whitening filters in the channels behind the places, then the same filters mixed, as far as there is room."""
    height, width = embed.patch_shape
    patches = nn.functional.unfold(images, (height, width), stride=(height, width))  # (M, patch_dim, P)
    filters = whitening_filters(patches.transpose(1, 2).flatten(0, 1))
    mixing = nn.init.orthogonal_(torch.empty_like(filters), generator=generator)
    room = embed.embed_dim - places
    both = torch.cat((filters, mixing @ filters))[:room]
    embed.proj.weight.zero_()
    embed.proj.weight[places : places + len(both)] = both
    embed.proj.bias.zero_()


def _start_layer(layer: TransformerEncoderLayer, places: int, generator: torch.Generator | None) -> None:
    """Orthogonal matrices; what a sublayer adds is half as strong, and leaves the places alone."""
    attention, ffn = layer.self_attn, layer.ffn
    for linear, gain in (
        (attention.query, 0.15),
        (attention.key, 0.15),
        (attention.value, 1.0),
        (attention.proj, 0.5),
        (ffn.fc1, 1.0),
        (ffn.fc2, 0.5),
    ):
        nn.init.orthogonal_(linear.weight, gain=gain, generator=generator)
    for last in (attention.proj, ffn.fc2):
        last.weight[:places] = 0


def _check_model(model: VisionTransformer, neighbours: Sequence[Sequence[Offset]]) -> None:
    who, layers = "start_from_images", model.transformer.layers
    if not isinstance(model.positional_encoding, LearnedPositionalEncoding) or model.pool != "mean":
        got = f"pool={model.pool!r}, {type(model.positional_encoding).__name__}"
        fix = 'build the model with positions="learned", pool="mean"'
        raise ValueError(explain(who, "model", "one with learned positions and pooled tokens", got, fix))
    heads = [layer.self_attn.n_head for layer in layers]
    if [len(offsets) for offsets in neighbours] != heads:
        expected, got = f"{heads} offsets in the layers", [len(offsets) for offsets in neighbours]
        raise ValueError(explain(who, "neighbours", expected, got, "name one offset for each head of each layer"))
