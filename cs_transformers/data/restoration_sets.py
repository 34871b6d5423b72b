"""Photos for restoration: published pairs of small and large images, and patches of any photos to learn from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.data.degradations import as_bytes, as_pixels, crop_to_multiple, shrink
from cs_transformers.data.paths import DamagedFileError, require_data, search_dirs
from cs_transformers.data.photos import list_photos, read_photo
from cs_transformers.errors import check_choice, check_count, explain

SETS = ("Set5", "Set14")
PUBLISHED_FILE = re.compile(r"(?P<name>.+)_HR\.(png|bmp|jpg|jpeg)", re.IGNORECASE)
PHOTO_FOLDERS = ("coco_mini/train2017", "coco_mini/val2017", "coco_mini/val2017_captions_only", "flickr8k_1000/images")
REMEDY = "Put files such as img_001_HR.png and img_001_LRx2.png there, or pass a folder of photos of your own."


class PhotoPair(NamedTuple):
    """A small image (3, H, W) and the large one (3, s H, s W) that it was made from, both uint8, and a name."""

    name: str
    small: Tensor
    large: Tensor


def load_pairs(source: str | os.PathLike[str] = "Set5", scale: int = 2) -> list[PhotoPair]:
    """Load pairs for super-resolution: a published set with its own small images, or any folder of photos.

    In a folder with files called ``..._HR.png`` the small images are the files ``..._LRx2.png``; large images are cut
    to the exact multiple from the top left, where they are larger by a few pixels. In any other folder the small
    images are made here, with the same filter.

    Args:
        source: "Set5", "Set14" or a folder.
        scale: Factor s: 2, 3 or 4.

    Returns:
        The pairs in the order of their names.

    Raises:
        FileNotFoundError: If the set, a photo, or a small image of this scale is missing.
        DamagedFileError: If a photo cannot be read, or the two images of a pair do not belong together.
        ValueError: If ``scale`` is another one, or a photo is smaller than it.

    Source:
        Bevilacqua et al. 2012 (Set5); Zeyde et al. 2010 (Set14).
    """
    check_choice("load_pairs", "scale", scale, (2, 3, 4))
    named = str(source) in SETS
    folder = require_data(f"sr/{source}", str(source), who="load_pairs", remedy=REMEDY) if named else Path(source)
    names = list_photos(folder)
    published = [match for match in map(PUBLISHED_FILE.fullmatch, names) if match]
    if published:
        return [_published_pair(folder, match, scale) for match in published]
    large = {name: crop_to_multiple(read_photo(folder / name), scale) for name in names}
    return [PhotoPair(name, as_bytes(shrink(as_pixels(one)[None], scale))[0], one) for name, one in large.items()]


def training_photos(source: str | os.PathLike[str] = "photos", *, least: int = 48) -> list[Tensor]:
    """Read photos to learn restoration from.

    Args:
        source: A folder of photos, or "photos" for those of COCO and Flickr8k in the data folders.
        least: Photos with a side below so many pixels are left out.

    Returns:
        uint8 tensors (3, H, W), at least one.

    Raises:
        FileNotFoundError: If there is no photo, or none is large enough.
        DamagedFileError: If a photo cannot be read.
    """
    check_count("training_photos", "least", least)
    if str(source) == "photos":
        folders = [folder / name for name in PHOTO_FOLDERS for folder in search_dirs() if (folder / name).is_dir()]
    else:
        folders = [Path(source)]
    if not folders:
        require_data(*PHOTO_FOLDERS, who="training_photos", remedy="Pass a folder of photos, or textures.")
    photos = [read_photo(folder / name) for folder in folders for name in list_photos(folder)]
    large = [photo for photo in photos if min(photo.shape[1:]) >= least]
    if not large:
        where = ", ".join(map(str, folders))
        raise FileNotFoundError(
            f"training_photos: expected photos of at least {least} pixels a side in {where}, the largest of "
            f"{len(photos)} are smaller. Add larger photos or learn from smaller patches."
        )
    return large


class PhotoPatches(Dataset[Tensor]):
    """All square patches of some photos on a grid, cut when they are asked for.

    Args:
        photos: uint8 tensors (3, H, W).
        size: Side of a patch in pixels.
        stride: Pixels from one patch to the next; None for half the side.

    Raises:
        ValueError: If there is no photo, or one is smaller than a patch.

    Example:
        >>> patches = PhotoPatches([torch.zeros(3, 10, 14, dtype=torch.uint8)], size=8, stride=2)
        >>> len(patches), patches[0][0].shape
        (8, torch.Size([3, 8, 8]))
    """

    def __init__(self, photos: Sequence[Tensor], size: int, stride: int | None = None) -> None:
        check_count("PhotoPatches", "size", size)
        stride = max(1, size // 2) if stride is None else stride
        check_count("PhotoPatches", "stride", stride)
        small = [tuple(photo.shape) for photo in photos if min(photo.shape[-2:]) < size]
        if not photos or small:
            got = small[0] if small else "none"
            fix = "leave small photos out, or cut smaller patches"
            raise ValueError(explain("PhotoPatches", "photos", f"one or more of {size} pixels a side", got, fix))
        self.photos, self.size = list(photos), size
        self.places = [
            (number, y, x)
            for number, photo in enumerate(photos)
            for y in range(0, photo.shape[-2] - size + 1, stride)
            for x in range(0, photo.shape[-1] - size + 1, stride)
        ]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor]:
        number, y, x = self.places[index]
        return (self.photos[number][:, y : y + self.size, x : x + self.size],)

    def batch(self, indices: Tensor) -> tuple[Tensor]:
        """Cut several patches.

        Args:
            indices: (N,) which.

        Returns:
            One tensor, (N, 3, size, size) uint8.
        """
        return (torch.stack([self[index][0] for index in indices.tolist()]),)


def _published_pair(folder: Path, match: re.Match, scale: int) -> PhotoPair:
    name, suffix = match["name"], Path(match.string).suffix
    path = folder / f"{name}_LRx{scale}{suffix}"
    if not path.is_file():
        there = sorted(one.name for one in folder.glob(f"{name}_LRx*"))
        raise FileNotFoundError(
            f"load_pairs: expected {path.absolute()}, there is none (only {', '.join(there) or 'no small image'}). "
            "Choose a scale that is there."
        )
    small, large = read_photo(path), read_photo(folder / match.string)
    H, W = (scale * side for side in small.shape[1:])
    spare = (large.shape[1] - H, large.shape[2] - W)
    if not all(0 <= pixels < 2 * scale for pixels in spare):
        raise DamagedFileError(
            f"load_pairs: {path.absolute()} of shape {tuple(small.shape)} is not the image {match.string} of shape "
            f"{tuple(large.shape)} made {scale} times smaller: replace one of them."
        )
    return PhotoPair(name, small, large[:, :H, :W])
