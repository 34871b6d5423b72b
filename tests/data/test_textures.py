from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from cs_transformers.data.degradations import as_pixels, shrink
from cs_transformers.data.textures import DIRECTIONS, LENGTH, make_textures, make_tile_pairs
from cs_transformers.restoration import bicubic
from cs_transformers.training.image_scores import psnr

# Every platform must make these bytes; a change of them is a change of all that was measured.
TEXTURES = "43a2b0db"
TILES = "f1ec8588"


def digest(values: torch.Tensor) -> str:
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()[:8]


def test_the_bytes_are_those_of_every_platform() -> None:
    pair = make_tile_pairs(3, seed=5)
    assert digest(make_textures(6, 40, seed=5)) == TEXTURES
    assert digest(torch.stack([pair.images, pair.references])) == TILES


def test_a_longer_series_begins_with_the_shorter_one() -> None:
    assert torch.equal(make_textures(5, 24, seed=3)[:2], make_textures(2, 24, seed=3))
    assert torch.equal(make_tile_pairs(5, seed=3).references[:2], make_tile_pairs(2, seed=3).references)


def test_series_of_different_seeds_share_no_image() -> None:
    images = torch.cat([make_textures(20, 16, seed) for seed in (1, 2)])
    assert len(images.flatten(1).unique(dim=0)) == 40


def test_nothing_global_is_drawn_from() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    make_textures(1, 16, seed=1)
    assert (np.random.get_state()[1] == before).all()


def test_directions_are_one_length_and_all_different() -> None:
    assert len(set(DIRECTIONS)) == len(DIRECTIONS) == 20
    assert all(x * x + y * y == LENGTH**2 for x, y in DIRECTIONS)


def test_textures_have_edges_that_enlargement_loses_and_use_the_whole_range() -> None:
    good = as_pixels(make_textures(40, 48, seed=9))
    enlarged = bicubic(shrink(good, 2), (48, 48))
    assert 25 < psnr(enlarged, good).mean().item() < 40
    assert good.amin() < 0.1
    assert good.amax() > 0.9


def tiles_of(image: torch.Tensor, size: int) -> set[bytes]:
    cells = image.unfold(1, size, size).unfold(2, size, size)  # (3, rows, columns, size, size)
    return {
        cells[:, row, column].numpy().tobytes() for row in range(cells.shape[1]) for column in range(cells.shape[2])
    }


@pytest.mark.parametrize(("tiles", "size", "kinds"), [(3, 12, 4), (2, 8, 4), (4, 4, 5)])
def test_image_and_reference_are_made_of_the_same_tiles(tiles: int, size: int, kinds: int) -> None:
    images, references = make_tile_pairs(6, seed=2, tiles=tiles, tile_size=size, kinds=kinds)
    assert images.shape == references.shape == (6, 3, tiles * size, tiles * size)
    for image, reference in zip(images, references, strict=True):
        assert tiles_of(image, size) == tiles_of(reference, size)
        assert len(tiles_of(image, size)) == kinds
    assert any(not torch.equal(image, reference) for image, reference in zip(images, references, strict=True))


def test_the_small_image_knows_the_colour_of_a_tile_but_not_its_pattern() -> None:
    """Inside a tile, far from its border, the small image is the flat colour up to the mean of the pattern."""
    images, _ = make_tile_pairs(30, seed=4)
    good = as_pixels(images)
    enlarged = bicubic(shrink(good, 4), (36, 36))
    assert 12 < psnr(enlarged, good).mean().item() < 17
    assert good.amin() > 0
    assert good.amax() < 1


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "size must be", lambda: make_textures(1, 7, 0)),
        (ValueError, "count must be", lambda: make_textures(0, 8, 0)),
        (TypeError, "seed must be", lambda: make_textures(1, 8, 0.5)),
        (ValueError, "seed must be", lambda: make_tile_pairs(1, -1)),
        (ValueError, "tile_size must be a multiple of 4", lambda: make_tile_pairs(1, 0, tile_size=10)),
        (ValueError, r"kinds must be at most 4 \(tiles squared\), got 5",
         lambda: make_tile_pairs(1, 0, tiles=2, kinds=5)),
        (ValueError, "kinds must be", lambda: make_tile_pairs(1, 0, kinds=0)),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(error: type[Exception], message: str, call: object) -> None:
    with pytest.raises(error, match=message):
        call()
