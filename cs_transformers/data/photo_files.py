"""Photo files in and out with all that they hold: grey or colour, transparency, 8 or 16 bits, rotation, profile."""

from __future__ import annotations

import os
import struct
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.errors import explain
from cs_transformers.files import atomic_path

GREY_MODES, DEEP_MODES = ("1", "L", "LA", "La"), ("I", "I;16", "I;16L", "I;16B", "I;16N")
NOT_RGB = ("CMYK", "LAB")  # modes whose profiles say nothing about the RGB that they become
HOLD_ALPHA, HOLD_DEPTH = ("PNG", "WEBP", "TIFF"), ("PNG", "TIFF")
JPEG_QUALITY = 95


@dataclass(frozen=True)
class Photo:
    """A photo as numbers from 0 to 1, and what its file said about it.

    Args:
        pixels: (3, H, W) RGB; a grey photo has three equal channels.
        alpha: (1, H, W) opacity, or None.
        grey: Whether the file had no colour.
        depth: Bits a channel that are kept, 8 or 16.
        profile: Colour profile of the file, or None.
        note: What could not be kept, or "".
    """

    pixels: Tensor
    alpha: Tensor | None = None
    grey: bool = False
    depth: int = 8
    profile: bytes | None = None
    note: str = ""


def read_photo_file(path: str | os.PathLike[str], *, max_pixels: int = 50_000_000) -> Photo:
    """Read a photo upright, with its transparency and its bits.

    Args:
        path: The file, in any format that Pillow reads; of an animation the first picture.
        max_pixels: Photos with more pixels are refused before they are unpacked.

    Returns:
        The photo.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is cut off or no picture.
        ValueError: If it has more pixels than allowed, or holds numbers that are no grey levels.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"read_photo_file: expected a photo at {path.absolute()}, there is none.")
    fix = "cut it into parts or shrink it first"
    too_large = ValueError(explain("read_photo_file", "the photo", f"of at most {max_pixels:,} pixels", path.name, fix))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                if image.width * image.height > max_pixels:
                    raise too_large
                reduced = _is_reduced(image)
                upright = ImageOps.exif_transpose(image)
                upright.load()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_large from error
    except (OSError, SyntaxError, EOFError, ValueError, struct.error) as error:
        if error is too_large:
            raise
        raise DamagedFileError(
            f"read_photo_file: {path.absolute()} cannot be read as a picture ({error}): replace it."
        ) from error
    photo = _unpacked(upright, path)
    profile, note = upright.info.get("icc_profile"), ""
    if reduced:
        note = "its 16 bits a channel were read as 8: colour has 8 here"
    if profile is not None and upright.mode in NOT_RGB:
        profile, note = None, f"its {upright.mode} colours became RGB, and its profile was left out"
    return replace(photo, profile=profile, note=note)


def check_photo_target(path: str | os.PathLike[str], photo: Photo | None = None) -> str:
    """Say in which format a photo would be written, before anything is computed.

    Args:
        path: Where it is to be written.
        photo: What is to be written, or None.

    Returns:
        Pillow's name of the format.

    Raises:
        ValueError: If the suffix names no format that can be written, or one without transparency for a photo that
            has some, or the path is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(explain("write_photo_file", "the path", "a file", f"the folder {path}", "add a file name"))
    kind = Image.registered_extensions().get(path.suffix.lower(), "")
    if kind not in Image.SAVE:
        got, fix = path.suffix or "no suffix", "use .png, .jpg, .webp, .tif or .bmp"
        raise ValueError(explain("write_photo_file", "the suffix", "of a picture format", got, fix))
    if photo is not None and photo.alpha is not None and kind not in HOLD_ALPHA:
        fix = "use .png, .webp or .tif"
        raise ValueError(explain("write_photo_file", "the suffix", "of a format with transparency", path.suffix, fix))
    return kind


def write_photo_file(path: str | os.PathLike[str], photo: Photo) -> None:
    """Write a photo; the file is either whole or absent, and an older one stays until the new one is whole.

    Sixteen bits are kept for grey in .png and .tif; everything else gets eight.

    Args:
        path: Where to, with the suffix of the format.
        photo: The photo.

    Raises:
        ValueError: If the format is unknown or cannot hold the transparency.
        PermissionError: If the folder cannot be written to.
    """
    kind = check_photo_target(path, photo)
    image = _packed(photo, deep=photo.depth == 16 and photo.grey and photo.alpha is None and kind in HOLD_DEPTH)
    options = {"quality": JPEG_QUALITY} if kind in ("JPEG", "WEBP") else {}
    if photo.profile is not None:
        options["icc_profile"] = photo.profile
    with atomic_path(path, who="write_photo_file") as temporary:
        image.save(temporary, format=kind, **options)


def _is_reduced(image: Image.Image) -> bool:
    """Whether Pillow drops the lower half of 16 bits when it unpacks this file: it does for colour."""
    return image.mode in ("RGB", "RGBA", "LA") and any(";16" in str(tile[3]) for tile in image.tile)


def _unpacked(image: Image.Image, path: Path) -> Photo:
    if image.mode in DEEP_MODES:
        levels = np.asarray(image).astype(np.int64)
        if levels.min() < 0 or levels.max() > 65535:
            got = f"{levels.min()} to {levels.max()} in {path.name}"
            raise ValueError(explain("read_photo_file", "grey levels", "from 0 to 65535", got, "scale them first"))
        grey = torch.from_numpy((levels / 65535).astype(np.float32))[None]  # (1, H, W)
        return Photo(grey.expand(3, -1, -1), grey=True, depth=16)
    if image.mode == "F":
        got, fix = f"floating numbers in {path.name}", "save it with 8 or 16 bits"
        raise ValueError(explain("read_photo_file", "the photo", "of whole grey levels", got, fix))
    is_grey = image.mode in GREY_MODES
    has_alpha = image.mode.endswith(("A", "a")) or "transparency" in image.info
    levels = np.array(image.convert("RGBA" if has_alpha else "RGB"))
    values = torch.from_numpy(levels).permute(2, 0, 1).float() / 255  # (3 or 4, H, W)
    return Photo(values[:3], values[3:] if has_alpha else None, is_grey)


def _packed(photo: Photo, *, deep: bool) -> Image.Image:
    pixels = photo.pixels.detach().cpu().double().clamp(0, 1)
    colour = pixels.mean(dim=0, keepdim=True) if photo.grey else pixels
    if deep:
        return Image.fromarray((colour[0] * 65535).round().numpy().astype(np.uint16))
    planes = [colour] if photo.alpha is None else [colour, photo.alpha.detach().cpu().double().clamp(0, 1)]
    levels = (torch.cat(planes) * 255).round().to(torch.uint8)  # (1 to 4, H, W)
    bands = [Image.fromarray(plane.numpy()) for plane in levels]
    return bands[0] if len(bands) == 1 else Image.merge({2: "LA", 3: "RGB", 4: "RGBA"}[len(bands)], bands)
