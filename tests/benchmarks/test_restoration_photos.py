"""The measure of seams sees steps where tiles meet, in both directions, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from benchmarks.records import holds
from benchmarks.restoration_photos import SEAM_GOAL, _roughness

HEIGHT, WIDTH, TILE = 60, 75, 15


def _noise(scale: int) -> Tensor:
    return torch.rand(1, 3, scale * HEIGHT, scale * WIDTH, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("scale", [1, 2])
def test_an_even_picture_is_as_rough_at_seams_as_elsewhere(scale: int) -> None:
    rough = _roughness(_noise(scale), (HEIGHT, WIDTH), TILE, overlap=0)
    assert rough == pytest.approx(1, abs=0.06)
    assert holds(rough, SEAM_GOAL)


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("along", [-1, -2], ids=["columns", "rows"])
def test_tiles_of_different_brightness_miss_the_goal(scale: int, along: int) -> None:
    image = _noise(scale)
    side = image.shape[along]
    tiles = (torch.arange(side) // (scale * TILE) % 2).float()  # every other tile is brighter
    image = image + 0.8 * (tiles if along == -1 else tiles[:, None])
    assert not holds(_roughness(image, (HEIGHT, WIDTH), TILE, overlap=0), SEAM_GOAL)


@pytest.mark.parametrize("scale", [1, 2])
def test_a_step_inside_a_tile_is_no_seam(scale: int) -> None:
    image = _noise(scale)
    inside = scale * (TILE + TILE // 2)
    assert _roughness(image + 0.8 * (torch.arange(scale * WIDTH) >= inside), (HEIGHT, WIDTH), TILE, overlap=0) < 1.03
