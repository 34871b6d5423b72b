"""How images get damaged, so that a model can learn to repair them: made smaller, noisy, rained on.

Letters: N batch, C channels, H height, W width, s scale. Images are floats from 0 to 1; all randomness comes from a
generator that the caller gives.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from cs_transformers.errors import check_pixels, check_shape, check_tensor, explain
from cs_transformers.restoration import bicubic, task_scale

__all__ = ["add_noise", "add_rain", "as_bytes", "as_pixels", "crop_to_multiple", "degrade", "shrink"]

RAIN_LENGTH, RAIN_SLOPE = 9, 0.35  # pixels down, and pixels to the side per pixel down, at most


def degrade(images: Tensor, task: str, generator: torch.Generator | None = None) -> Tensor:
    """Damage images in the way that a task repairs.

    Args:
        images: (N, C, H, W) good images from 0 to 1; for "x2", "x3", "x4" both sides are multiples of the factor.
        task: "x2", "x3" or "x4" (smaller), "denoise" and a standard deviation in grey levels of 255, or "derain".
        generator: Source of noise and rain, on the CPU; not used by the first three.

    Returns:
        (N, C, H/s, W/s).

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If ``task`` is unknown, a side is no multiple, a generator is needed and not given, or pixels are
            grey levels of 0 to 255.

    Example:
        >>> degrade(torch.rand(2, 3, 12, 8), "x4").shape
        torch.Size([2, 3, 3, 2])

    Source:
        Chen et al. 2021, section 4.1, arXiv:2012.00364.
    """
    noise = re.fullmatch(r"denoise(\d+)", task)
    if re.fullmatch(r"x\d+", task):
        return shrink(images, task_scale(task))
    if noise is None and task != "derain":
        expected = 'x2, x3, x4, "denoise" and a number, or "derain"'
        raise ValueError(explain("degrade", "task", expected, repr(task), "check the spelling"))
    return add_rain(images, generator) if noise is None else add_noise(images, float(noise[1]), generator)


def shrink(images: Tensor, scale: int) -> Tensor:
    """Make images smaller by a whole factor, with the bicubic filter that published sets are made with.

    Args:
        images: (N, C, H, W) from 0 to 1.
        scale: Factor s, a divisor of H and W.

    Returns:
        (N, C, H/s, W/s) from 0 to 1.

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If it has not four axes, a side is no multiple of ``scale``, or pixels go up to 255.

    Example:
        >>> bool(torch.allclose(shrink(torch.full((1, 3, 6, 9), 0.3), 3), torch.tensor(0.3)))
        True
    """
    _check("shrink", images)
    H, W = images.shape[-2:]
    if H % scale or W % scale or min(H, W) < scale:
        fix = "cut it with crop_to_multiple"
        raise ValueError(explain("shrink", "images", f"multiples of {scale} in height and width", (H, W), fix))
    return bicubic(images, (H // scale, W // scale)).clamp(0, 1)


def add_noise(images: Tensor, sigma: float, generator: torch.Generator | None = None) -> Tensor:
    """Add to each pixel a normal deviation of its own; what leaves [0, 1] stays so, as in training sets.

    Args:
        images: (N, C, H, W) from 0 to 1.
        sigma: Standard deviation in grey levels of 255.
        generator: Source of the noise, on the CPU.

    Returns:
        The shape of ``images``.

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If it has not four axes, ``sigma`` is negative, pixels go up to 255, or there is no generator.
    """
    _check("add_noise", images, generator, needs_generator=True)
    if sigma < 0:
        raise ValueError(explain("add_noise", "sigma", "0 or more grey levels", sigma, "30 and 50 are usual"))
    noise = torch.randn(images.shape, generator=generator, dtype=images.dtype)
    return images + (sigma / 255) * noise.to(images.device)


def add_rain(
    images: Tensor, generator: torch.Generator | None = None, *, density: float = 0.015, strength: float = 0.6
) -> Tensor:
    """Draw bright slanted streaks over images; all streaks of an image fall in one direction.

    Args:
        images: (N, C, H, W) from 0 to 1.
        generator: Source of the rain, on the CPU.
        density: Share of the pixels at which a streak begins.
        strength: Brightness of a streak's middle.

    Returns:
        The shape of ``images``, cut to [0, 1].

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If it has not four axes, a number lies outside [0, 1], pixels go up to 255, or there is no
            generator.
    """
    _check("add_rain", images, generator, needs_generator=True)
    for name, number in (("density", density), ("strength", strength)):
        if not 0 <= number <= 1:
            raise ValueError(explain("add_rain", name, "from 0 to 1", number, "leave it out for the usual rain"))
    N, _, H, W = images.shape
    drops = torch.rand((N, 1, H + RAIN_LENGTH, W + 2 * RAIN_LENGTH), generator=generator) < density
    bright = drops * (0.5 + 0.5 * torch.rand(drops.shape, generator=generator))
    slopes = RAIN_SLOPE * (2 * torch.rand(N, generator=generator) - 1)
    rain = torch.zeros(N, 1, H, W)
    for step in range(RAIN_LENGTH):  # a streak is its drop, repeated ever further down and to the side
        fade = 1 - abs(2 * step - (RAIN_LENGTH - 1)) / (RAIN_LENGTH + 1)
        for row, slope in enumerate(slopes.tolist()):
            left = RAIN_LENGTH - round(slope * step)
            rain[row] += fade * bright[row, :, RAIN_LENGTH - step : RAIN_LENGTH - step + H, left : left + W]
    return (images + strength * rain.clamp(max=1).to(images)).clamp(0, 1)


def crop_to_multiple(image: Tensor, multiple: int) -> Tensor:
    """Cut the right and lower border off, so that both sides are multiples of a number.

    Args:
        image: (..., H, W).
        multiple: The number.

    Returns:
        (..., H', W'), the upper left part.

    Raises:
        ValueError: If a side is shorter than ``multiple``.

    Example:
        >>> crop_to_multiple(torch.zeros(3, 10, 7), 4).shape
        torch.Size([3, 8, 4])
    """
    H, W = image.shape[-2:]
    if min(H, W) < multiple:
        fix = "take larger images"
        raise ValueError(explain("crop_to_multiple", "image", f"at least {multiple} pixels a side", (H, W), fix))
    return image[..., : H - H % multiple, : W - W % multiple]


def as_pixels(images: Tensor) -> Tensor:
    """Turn bytes into numbers from 0 to 1; floats stay what they are.

    Args:
        images: uint8 or floating tensor of any shape.

    Returns:
        float32 for bytes.

    Raises:
        TypeError: If the dtype is neither.

    Example:
        >>> as_pixels(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
        [0.0, 1.0]
    """
    if images.dtype == torch.uint8:
        return images.float() / 255
    check_tensor("as_pixels", "images", images)
    return images


def as_bytes(images: Tensor) -> Tensor:
    """Round numbers from 0 to 1 to the 256 grey levels of a picture file; what lies outside is cut.

    Args:
        images: Floating tensor of any shape.

    Returns:
        uint8, the same shape.

    Raises:
        TypeError: If the dtype is no floating one.

    Example:
        >>> as_bytes(torch.tensor([-0.1, 0.5, 1.2])).tolist()
        [0, 128, 255]
    """
    check_tensor("as_bytes", "images", images)
    return (images.clamp(0, 1) * 255).round().to(torch.uint8)


def _check(who: str, images: Tensor, generator: object = None, *, needs_generator: bool = False) -> None:
    check_tensor(who, "images", images)
    check_shape(who, "images", images, "add the batch axis with images[None]", N=None, C=None, H=None, W=None)
    check_pixels(who, "images", images)
    if needs_generator and not isinstance(generator, torch.Generator):
        fix = "pass torch.Generator().manual_seed(0)"
        raise ValueError(explain(who, "generator", "a torch.Generator", type(generator).__name__, fix))
