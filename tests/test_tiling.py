"""Tiles: they cover every pixel, blend to the exact result where the function allows it, and leave no seam."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cs_transformers.tiling import blend_window, process_by_tiles, tile_starts

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


def images(height: int, width: int, batch: int = 2) -> Tensor:
    return torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("overlap", [0, 1, 3, 7])
@pytest.mark.parametrize("length", [8, 9, 15, 16, 17, 41])
def test_tiles_cover_the_side_and_share_at_least_the_overlap(length: int, overlap: int) -> None:
    starts = tile_starts(length, 8, overlap)
    covered = {pixel for start in starts for pixel in range(start, start + 8)}
    assert covered == set(range(length))
    assert all(later - earlier <= 8 - overlap for earlier, later in itertools.pairwise(starts))
    assert len(starts) == len(set(starts))


def test_tiles_are_as_few_as_can_be() -> None:
    assert tile_starts(8, 8, 3) == [0]
    assert len(tile_starts(41, 8, 3)) == -(-(41 - 8) // 5) + 1


def test_the_window_is_symmetric_positive_and_flat_inside() -> None:
    window = blend_window(9, 3, like=torch.zeros(1, dtype=torch.float64))
    assert torch.equal(window, window.T)
    assert torch.equal(window, window.flip(0, 1))
    assert (window > 0).all()
    assert (window[3:6, 3:6] == 1).all()


@pytest.mark.parametrize(("height", "width"), [(8, 8), (21, 13), (8, 30), (3, 5), (1, 1), (5, 40)])
@pytest.mark.parametrize("scale", [1, 3])
def test_a_function_that_knows_no_neighbours_gives_the_same_by_tiles_as_at_once(
    height: int, width: int, scale: int
) -> None:
    def larger(x: Tensor) -> Tensor:
        return x.square().repeat_interleave(scale, -1).repeat_interleave(scale, -2)

    x = images(height, width)
    torch.testing.assert_close(process_by_tiles(larger, x, 8, scale=scale, overlap=3, batch_size=5), larger(x), **CLOSE)


def test_the_number_of_tiles_at_once_changes_nothing() -> None:
    x = images(20, 17)
    results = [process_by_tiles(torch.sin, x, 8, overlap=2, batch_size=size) for size in (1, 4, 100)]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_each_image_of_a_batch_is_worked_on_by_itself() -> None:
    x = images(13, 18)
    both = process_by_tiles(torch.sin, x, 8, overlap=3, batch_size=3)
    for row in range(2):
        torch.testing.assert_close(
            process_by_tiles(torch.sin, x[row : row + 1], 8, overlap=3), both[row : row + 1], **CLOSE
        )


def test_tiles_that_disagree_blend_without_a_jump() -> None:
    """Each tile gets a level of its own, the worst case: between neighbours the step is spread over the overlap."""
    levels = iter(range(100))

    def own_level(tiles: Tensor) -> Tensor:
        return torch.stack([torch.full_like(tile, next(levels)) for tile in tiles])

    def steepest(overlap: int) -> float:
        nonlocal levels
        levels = iter(range(100))
        blended = process_by_tiles(own_level, images(16, 64, batch=1), 16, overlap=overlap)
        return (blended[..., 1:] - blended[..., :-1]).abs().max().item()

    assert steepest(0) == 1.0
    assert steepest(8) <= 1 / 8


def test_what_a_convolution_lacks_at_a_tiles_border_is_hidden_by_the_overlap() -> None:
    kernel = torch.full((1, 1, 3, 3), 1 / 9, dtype=torch.float64)

    def blur(x: Tensor) -> Tensor:
        return F.conv2d(x, kernel, padding=1)

    x = torch.ones(1, 1, 40, 40, dtype=torch.float64)
    inner = (..., slice(2, -2), slice(2, -2))
    worst = [(process_by_tiles(blur, x, 16, overlap=overlap)[inner] - 1).abs().max().item() for overlap in (1, 8)]
    assert worst[1] < worst[0] / 3


def test_dtype_and_channels_are_the_functions_own() -> None:
    x = images(9, 9).float()
    assert process_by_tiles(lambda t: t[:, :1], x, 8, overlap=2).shape == (2, 1, 9, 9)
    assert process_by_tiles(lambda t: t, x.bfloat16(), 8, overlap=2).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "length must be at least one tile of 8, got 5", lambda: tile_starts(5, 8, 2)),
        (ValueError, "overlap must be below the tile of 8, got 8", lambda: tile_starts(9, 8, 8)),
        (TypeError, "tile must be a positive whole number", lambda: tile_starts(9, 8.0, 2)),
        (TypeError, "images must be a torch.Tensor, got list", lambda: process_by_tiles(torch.sin, [1.0], 8)),
        (ValueError, r"images must be of shape \(N, C, H, W\)", lambda: process_by_tiles(abs, torch.ones(3, 9, 9), 8)),
        (ValueError, r"images must be of shape", lambda: process_by_tiles(abs, torch.ones(1, 3, 0, 9), 8)),
        (ValueError, "batch_size must be", lambda: process_by_tiles(abs, torch.ones(1, 3, 9, 9), 8, batch_size=0)),
        (ValueError, "scale must be", lambda: process_by_tiles(abs, torch.ones(1, 3, 9, 9), 8, scale=0)),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_refused(error: type[Exception], message: str, call: object) -> None:
    with pytest.raises(error, match=message):
        call()
