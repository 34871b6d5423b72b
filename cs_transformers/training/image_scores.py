"""How close a restored image is to the true one: PSNR over all channels or over brightness alone, and SSIM.

Letters: N batch, C channels, H height, W width. Pixels are numbers from 0 to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cs_transformers.errors import check_count, check_pixels, check_same_kind, check_shape, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


def psnr(restored: Tensor, target: Tensor, *, border: int = 0) -> Tensor:
    """Say in decibels how far the peak, 1, stands above the error: 10 log10(1 / mean squared error), image by image.

    Args:
        restored: (N, C, H, W); what lies outside [0, 1] is cut first, as a screen does.
        target: (N, C, H, W) the true images, from 0 to 1.
        border: Pixels on each side that do not count; published figures leave out as many as the factor of enlargement.

    Returns:
        (N,) decibels; infinite where there is no error at all.

    Raises:
        TypeError: If an argument is no floating tensor, or the dtypes differ.
        ValueError: If the shapes differ, are not (N, C, H, W), nothing is left inside the border, or ``target`` has
            grey levels of 0 to 255.

    Example:
        >>> psnr(torch.full((1, 3, 4, 4), 0.6), torch.full((1, 3, 4, 4), 0.5)).round().tolist()
        [20.0]

    Source:
        ITU-T J.247, annex; for super-resolution Yang, Ma and Yang 2014, "Single-image super-resolution: a benchmark".
    """
    restored, target = _inside("psnr", restored, target, border)
    # Exercise 9.3: cut `restored` to [0, 1]; the mean squared error of each image; decibels (about 2 lines).
    ### BEGIN SOLUTION 9.3
    error = (restored.clamp(0, 1) - target).square().mean(dim=(1, 2, 3))  # (N,)
    return 10 * torch.log10(1 / error)
    ### END SOLUTION 9.3


def ssim(restored: Tensor, target: Tensor, *, border: int = 0) -> Tensor:
    """Compare mean, contrast and structure in small windows, image by image, by torchmetrics.

    Args:
        restored: (N, C, H, W); what lies outside [0, 1] is cut first.
        target: (N, C, H, W) the true images, from 0 to 1.
        border: Pixels on each side that do not count.

    Returns:
        (N,) from -1 to 1, where 1 means equal.

    Raises:
        ImportError: If torchmetrics is not installed.
        TypeError: If an argument is no floating tensor, or the dtypes differ.
        ValueError: If the shapes differ, or less than the window of 11 pixels is left inside the border.

    Source:
        Wang et al. 2004, "Image quality assessment: from error visibility to structural similarity".
    """
    restored, target = _inside("ssim", restored, target, border, least=11)
    try:
        from torchmetrics.functional.image import structural_similarity_index_measure
    except ImportError as problem:
        raise ImportError("ssim needs the package torchmetrics: pip install 'cs_transformers[score]'.") from problem
    pairs = zip(restored.clamp(0, 1).split(1), target.split(1), strict=True)
    return torch.stack([structural_similarity_index_measure(one, other, data_range=1.0) for one, other in pairs])


def luma(images: Tensor) -> Tensor:
    """Keep the brightness Y of ITU-R BT.601 in studio range, which published figures are computed on.

    Y = 16/255 + (65.481 R + 128.553 G + 24.966 B) / 255: white becomes 235/255 and black 16/255.

    Args:
        images: (N, 3, H, W) RGB from 0 to 1.

    Returns:
        (N, 1, H, W).

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If it has not three channels.

    Example:
        >>> (255 * luma(torch.ones(1, 3, 1, 1))).round().item()
        235.0
    """
    check_tensor("luma", "images", images)
    check_shape("luma", "images", images, "pass RGB images, batch first", N=None, C=3, H=None, W=None)
    weights = images.new_tensor([65.481, 128.553, 24.966]).view(3, 1, 1)
    return (16 + (weights * images).sum(dim=1, keepdim=True)) / 255  # (N, 1, H, W)


def _inside(who: str, restored: Tensor, target: Tensor, border: int, least: int = 1) -> tuple[Tensor, Tensor]:
    check_count(who, "border", border, minimum=0)
    check_tensor(who, "restored", restored)
    check_tensor(who, "target", target)
    check_shape(who, "target", target, "images are batch first", N=None, C=None, H=None, W=None)
    sizes = dict(zip("NCHW", target.shape, strict=True))
    check_shape(who, "restored", restored, "crop the larger one, or look for a shift by one pixel", **sizes)
    check_same_kind(who, "target", target=target, restored=restored)
    check_pixels(who, "target", target)  # restored ones may be anything: a bad model is to be scored too
    H, W = target.shape[-2:]
    if min(H, W) - 2 * border < least:
        expected = f"at least {least + 2 * border} pixels a side"
        raise ValueError(explain(who, "target", expected, (H, W), "use a smaller border or larger images"))
    area = (..., slice(border, H - border), slice(border, W - border))
    return restored[area], target[area]
