"""Procedural pictures for restoration: structured images, and pairs of images made from one dictionary of tiles.

Every pixel follows from the seed by integer arithmetic, so that each platform makes the same bytes. What bicubic
enlargement loses in the first kind (edges, stripes) can be guessed from what is left; in the second kind it cannot: the
pattern inside a tile is finer than the small image can show, and only the other image of the pair tells it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cs_transformers.data.scenes import draw
from cs_transformers.errors import check_count, explain

# Directions as whole numbers of nearly equal length (about 25), a full turn without repeats.
_QUARTER = ((25, 0), (24, 7), (20, 15), (15, 20), (7, 24))
DIRECTIONS = tuple(pair for x, y in _QUARTER for pair in ((x, y), (-y, x), (-x, -y), (y, -x)))
LENGTH = 25
FINE = 16  # steps per pixel: shapes begin between pixels


class TexturePair(NamedTuple):
    """Images (N, 3, S, S) and references (N, 3, S, S), uint8: the same tiles in two random arrangements."""

    images: Tensor
    references: Tensor


def make_textures(count: int, size: int, seed: int) -> Tensor:
    """Invent images of gradients, discs, bars, lines and stripes, with edges softened by a pixel.

    Args:
        count: How many.
        size: Height and width in pixels, at least 8.
        seed: Seed of the series; image i of a series does not depend on ``count``.

    Returns:
        (count, 3, size, size) uint8.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is too small.

    Example:
        >>> make_textures(2, 16, seed=1).shape
        torch.Size([2, 3, 16, 16])
    """
    check_count("make_textures", "count", count)
    check_count("make_textures", "size", size, minimum=8)
    check_count("make_textures", "seed", seed, minimum=0)
    images = [_texture(np.random.RandomState([seed, number]), size) for number in range(count)]
    return torch.from_numpy(np.stack(images))


def make_tile_pairs(count: int, seed: int, *, tiles: int = 3, tile_size: int = 12, kinds: int = 4) -> TexturePair:
    """Make pairs of images, each from its own dictionary of tiles: a colour of its own under a random pattern.

    The pattern is of 2-pixel squares, a little darker or brighter than the colour. Four times smaller, a tile is its
    colour; which pattern belongs to a colour, only the reference tells.

    Args:
        count: How many pairs.
        seed: Seed of the series; pair i of a series does not depend on ``count``.
        tiles: Tiles along a side of an image.
        tile_size: Side of a tile in pixels, a multiple of 4.
        kinds: Tiles in a dictionary, at most ``tiles`` squared, so that every kind appears in both images.

    Returns:
        The images and their references.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number does not fit.

    Example:
        >>> images, references = make_tile_pairs(2, seed=1)
        >>> images.shape, bool((images[0].unique() == references[0].unique()).all())
        (torch.Size([2, 3, 36, 36]), True)
    """
    for name, number in (("count", count), ("tiles", tiles), ("tile_size", tile_size), ("kinds", kinds)):
        check_count("make_tile_pairs", name, number)
    check_count("make_tile_pairs", "seed", seed, minimum=0)
    if tile_size % 4:
        raise ValueError(explain("make_tile_pairs", "tile_size", "a multiple of 4", tile_size, "take 12"))
    if kinds > tiles**2:
        raise ValueError(
            explain("make_tile_pairs", "kinds", f"at most {tiles**2} (tiles squared)", kinds, "take fewer")
        )
    pairs = [_tile_pair(np.random.RandomState([seed, number]), tiles, tile_size, kinds) for number in range(count)]
    images, references = (torch.from_numpy(np.stack(part)) for part in zip(*pairs, strict=True))
    return TexturePair(images, references)


def _texture(rng: np.random.RandomState, size: int) -> np.ndarray:
    y, x = np.mgrid[0:size, 0:size].astype(np.int64) * FINE
    picture = _gradient(rng, x, y, size)
    for _ in range(draw(rng, 2, 5)):
        inside, along = _shape(rng, x, y, size * FINE)
        colour = rng.randint(0, 256, (3, 1), dtype=np.int64)
        if draw(rng, 1, 20) <= 7:  # stripes: a wave of straight lines between the colour and a fifth of it
            colour = colour * _wave(along[inside], draw(rng, 4, 10) * FINE * LENGTH) // 100
        picture[:, inside] = colour
    return _soften(picture).astype(np.uint8)


def _gradient(rng: np.random.RandomState, x: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    first, last = rng.randint(38, 218, (2, 3, 1, 1), dtype=np.int64)
    a, b = DIRECTIONS[draw(rng, 0, len(DIRECTIONS) - 1)]
    steps = draw(rng, 30, 100)
    middle = size * FINE // 2
    share = 50 + (a * (x - middle) + b * (y - middle)) * steps // (LENGTH * size * FINE)  # percent
    return first + (last - first) * share.clip(0, 100) // 100


def _shape(rng: np.random.RandomState, x: np.ndarray, y: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """A disc, a bar or a line: where it is, and the coordinate along it, in steps times LENGTH."""
    a, b = DIRECTIONS[draw(rng, 0, len(DIRECTIONS) - 1)]
    kind, radius = draw(rng, 0, 2), draw(rng, 12, 40) * side // 100
    left, top = draw(rng, 0, side - 1), draw(rng, 0, side - 1)
    across, along = a * (x - left) + b * (y - top), a * (y - top) - b * (x - left)
    reach = radius * LENGTH
    if kind == 0:
        return across**2 + along**2 < reach**2, along
    if kind == 1:
        return (abs(across) < reach) & (abs(along) < reach * draw(rng, 20, 100) // 100), along
    return abs(across) < draw(rng, FINE, 3 * FINE) * LENGTH, along


def _wave(along: np.ndarray, period: int) -> np.ndarray:
    """Percent from 20 to 100 and back along a period."""
    place = along % period * 160 // period
    return 20 + np.minimum(place, 160 - place)


def _soften(picture: np.ndarray) -> np.ndarray:
    """Weights 1, 4, 1 down and across, so that no edge is sharper than a lens draws it."""
    padded = np.pad(picture, ((0, 0), (1, 1), (1, 1)), mode="edge")
    down = padded[:, :-2] + 4 * padded[:, 1:-1] + padded[:, 2:]
    both = down[:, :, :-2] + 4 * down[:, :, 1:-1] + down[:, :, 2:]
    return (both + 18) // 36


def _tile_pair(rng: np.random.RandomState, tiles: int, size: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    colours = rng.randint(64, 192, (kinds, 3, 1, 1), dtype=np.int64)
    signs = 2 * rng.randint(0, 2, (kinds, 1, size // 2, size // 2), dtype=np.int64) - 1
    patterns = signs.repeat(2, axis=2).repeat(2, axis=3)
    dictionary = (colours + 51 * patterns).astype(np.uint8)  # (kinds, 3, size, size)
    return _arrange(rng, dictionary, tiles), _arrange(rng, dictionary, tiles)


def _arrange(rng: np.random.RandomState, dictionary: np.ndarray, tiles: int) -> np.ndarray:
    kinds, channels, size = dictionary.shape[:3]
    order = np.arange(tiles**2, dtype=np.int64) % kinds  # every kind at least once
    for last in range(len(order) - 1, 0, -1):  # a shuffle of our own draws, the same with every numpy
        other = draw(rng, 0, last)
        order[[last, other]] = order[[other, last]]
    cells = dictionary[order].reshape(tiles, tiles, channels, size, size)
    return cells.transpose(2, 0, 3, 1, 4).reshape(channels, tiles * size, tiles * size)
