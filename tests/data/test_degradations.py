from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from cs_transformers.data.degradations import (
    add_noise,
    add_rain,
    as_bytes,
    as_pixels,
    crop_to_multiple,
    degrade,
    shrink,
)


def pixels(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0))


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_images_shrink_as_pillow_shrinks_them(scale: int) -> None:
    x = pixels(1, 1, 12 * 2, 12 * 3)
    expected = np.asarray(Image.fromarray(x[0, 0].numpy()).resize((36 // scale, 24 // scale), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(degrade(x, f"x{scale}")[0, 0].numpy(), expected.clip(0, 1), atol=2e-6)


def test_shrunk_images_stay_on_the_screen() -> None:
    checker = (torch.arange(16)[:, None] // 2 + torch.arange(16) // 2) % 2
    small = shrink(checker.float()[None, None], 2)
    assert small.min() >= 0
    assert small.max() <= 1


@pytest.mark.parametrize("sigma", [30, 50])
def test_noise_has_its_strength_in_grey_levels_and_no_mean(sigma: int) -> None:
    x = torch.full((4, 3, 60, 60), 0.5)
    noise = 255 * (degrade(x, f"denoise{sigma}", generator()) - x)
    assert noise.std().item() == pytest.approx(sigma, rel=0.01)
    assert abs(noise.mean().item()) < 0.02 * sigma
    assert (x + noise / 255).max() > 1 or sigma == 30  # not cut


def test_the_same_generator_gives_the_same_damage_and_another_one_another() -> None:
    x = pixels(2, 3, 20, 21)
    for task in ("denoise30", "derain"):
        assert torch.equal(degrade(x, task, generator()), degrade(x, task, generator()))
        assert not torch.equal(degrade(x, task, generator()), degrade(x, task, generator(2)))


def test_the_global_stream_stays_where_it_is() -> None:
    before = torch.get_rng_state()
    for task in ("denoise30", "derain", "x2"):
        degrade(pixels(2, 3, 20, 22), task, generator())
    assert torch.equal(torch.get_rng_state(), before)


def test_rain_only_brightens_in_thin_slanted_streaks() -> None:
    x = torch.full((3, 3, 80, 90), 0.2)
    rain = add_rain(x, generator()) - x
    assert (rain >= -1e-6).all()
    assert torch.equal(rain[:, 0], rain[:, 1])  # grey
    wet = rain[:, 0] > 0.05
    assert 0.02 < wet.float().mean().item() < 0.3
    below = (wet[:, 1:] & wet[:, :-1]).sum() / wet.sum()
    beside = (wet[:, :, 1:] & wet[:, :, :-1]).sum() / wet.sum()
    assert below > 0.6 > beside


def test_no_density_is_no_rain_and_more_is_more() -> None:
    x = torch.full((1, 3, 60, 60), 0.2)
    assert torch.equal(add_rain(x, generator(), density=0.0), x)
    amounts = [add_rain(x, generator(), density=density).mean().item() for density in (0.005, 0.02, 0.06)]
    assert amounts == sorted(amounts)


def test_cropping_keeps_the_upper_left_part() -> None:
    x = pixels(3, 10, 7)
    assert torch.equal(crop_to_multiple(x, 4), x[:, :8, :4])
    assert torch.equal(crop_to_multiple(x, 1), x)


def test_bytes_come_back_from_pixels() -> None:
    levels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(as_bytes(as_pixels(levels)), levels)
    assert as_pixels(pixels(2, 2)) is not None
    assert torch.equal(as_pixels(pixels(2, 2)), pixels(2, 2))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, 'task must be x2, x3, x4, "denoise" and a number', lambda: degrade(pixels(1, 3, 8, 8), "blur")),
        (ValueError, "task must be x2, x3 or x4", lambda: degrade(pixels(1, 3, 8, 8), "x5")),
        (ValueError, "images must be multiples of 3 in height and width, got .8, 9.",
         lambda: shrink(pixels(1, 3, 8, 9), 3)),
        (ValueError, "images must be of shape", lambda: shrink(pixels(3, 8, 8), 2)),
        (TypeError, "images must be", lambda: shrink(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 2)),
        (ValueError, "images must be of pixels from 0 to 1, got .*; divide grey levels by 255",
         lambda: degrade(255 * pixels(1, 3, 8, 8), "x2")),
        (ValueError, "generator must be a torch.Generator, got NoneType",
         lambda: degrade(pixels(1, 3, 8, 8), "denoise30")),
        (ValueError, "generator must be a torch.Generator", lambda: degrade(pixels(1, 3, 8, 8), "derain")),
        (ValueError, "sigma must be 0 or more", lambda: add_noise(pixels(1, 3, 8, 8), -1, generator())),
        (ValueError, "density must be from 0 to 1", lambda: add_rain(pixels(1, 3, 8, 8), generator(), density=2)),
        (ValueError, "image must be at least 9 pixels a side", lambda: crop_to_multiple(pixels(3, 8, 20), 9)),
        (TypeError, "images must be", lambda: as_pixels(torch.zeros(2, dtype=torch.int64))),
        (TypeError, "images must be", lambda: as_bytes(torch.zeros(2, dtype=torch.uint8))),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(error: type[Exception], message: str, call: object) -> None:
    with pytest.raises(error, match=message):
        call()
