"""Whole pictures for a model that reads squares of one size: overlapping tiles, blended so that no seam is left.

Letters: N batch, C channels, H height, W width, s scale, S side of a tile.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import check_count, check_tensor, explain

TileFunction = Callable[[Tensor], Tensor]


def tile_starts(length: int, tile: int, overlap: int) -> list[int]:
    """Say where the tiles along one side begin: evenly, and the last one ends with the side.

    Args:
        length: Length of the side in pixels, at least ``tile``.
        tile: Side S of a tile in pixels.
        overlap: Pixels that neighbours share at least.

    Returns:
        Ascending positions, the first is 0 and the last ``length - tile``.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If ``length`` is below ``tile``, or ``overlap`` not below it.

    Example:
        >>> tile_starts(20, tile=8, overlap=2)
        [0, 6, 12]
    """
    check_count("tile_starts", "tile", tile)
    check_count("tile_starts", "overlap", overlap, minimum=0)
    check_count("tile_starts", "length", length)
    if length < tile:
        raise ValueError(explain("tile_starts", "length", f"at least one tile of {tile}", length, "pad the side first"))
    if overlap >= tile:
        raise ValueError(explain("tile_starts", "overlap", f"below the tile of {tile}", overlap, "share fewer pixels"))
    gaps = -(-(length - tile) // (tile - overlap))
    return [round(number * (length - tile) / max(gaps, 1)) for number in range(gaps + 1)]


def blend_window(tile: int, overlap: int, *, like: Tensor) -> Tensor:
    """Make the weights of a tile: 1 inside, falling in a straight line over the pixels it shares, never 0.

    Args:
        tile: Side of a tile in pixels.
        overlap: Pixels that neighbours share.
        like: Tensor whose dtype and device the window gets.

    Returns:
        (tile, tile) weights.

    Example:
        >>> blend_window(4, 1, like=torch.zeros(1))[1].tolist()
        [0.5, 1.0, 1.0, 0.5]
    """
    place = torch.arange(tile, dtype=like.dtype, device=like.device)
    from_border = torch.minimum(place, tile - 1 - place) + 0.5  # middle of the pixel
    ramp = (from_border / max(overlap, 0.5)).clamp(max=1)  # two of them that overlap add up to 1
    return ramp[:, None] * ramp


def process_by_tiles(
    function: TileFunction, images: Tensor, tile: int, *, scale: int = 1, overlap: int = 8, batch_size: int = 16
) -> Tensor:
    """Apply a function of square tiles to images of any size.

    An image smaller than a tile is continued with its border pixels and cut back.

    Args:
        function: Takes (M, C, S, S) tiles and returns (M, C', s S, s S).
        images: (N, C, H, W) images of any height and width.
        tile: Side S of a tile in pixels.
        scale: Factor s by which the function enlarges.
        overlap: Pixels that neighbouring tiles share at least, below S.
        batch_size: Tiles per call, which bounds the memory.

    Returns:
        (N, C', s H, s W).

    Raises:
        TypeError: If ``images`` is no floating tensor or a number is not whole.
        ValueError: If ``images`` has not four axes or an empty one, or ``overlap`` is not below ``tile``.

    Example:
        >>> doubled = process_by_tiles(lambda tiles: 2 * tiles, torch.ones(1, 3, 5, 21), tile=8, overlap=2)
        >>> doubled.shape, bool((doubled == 2).all())
        (torch.Size([1, 3, 5, 21]), True)
    """
    check_tensor("process_by_tiles", "images", images)
    if images.dim() != 4 or 0 in images.shape:
        fix = "add the batch axis with images[None] to a single image"
        raise ValueError(explain("process_by_tiles", "images", "of shape (N, C, H, W)", tuple(images.shape), fix))
    for name, number in (("scale", scale), ("batch_size", batch_size)):
        check_count("process_by_tiles", name, number)
    H, W = images.shape[-2:]
    padded = F.pad(images, (0, max(0, tile - W), 0, max(0, tile - H)), mode="replicate")  # (N, C, >= S, >= S)
    height, width = padded.shape[-2:]
    corners = [(y, x) for y in tile_starts(height, tile, overlap) for x in tile_starts(width, tile, overlap)]
    places = [(row, y, x) for row in range(len(images)) for y, x in corners]
    window = blend_window(tile * scale, overlap * scale, like=images)
    total = weight = None
    for start in range(0, len(places), batch_size):
        part = places[start : start + batch_size]
        results = function(torch.stack([padded[row, :, y : y + tile, x : x + tile] for row, y, x in part]))
        if total is None:
            total = results.new_zeros(len(images), results.shape[1], scale * height, scale * width)
            weight = torch.zeros_like(total[:, :1])
        for (row, y, x), result in zip(part, results, strict=True):
            area = (row, ..., slice(scale * y, scale * (y + tile)), slice(scale * x, scale * (x + tile)))
            total[area] += result * window
            weight[area] += window
    return (total / weight)[..., : scale * H, : scale * W]
