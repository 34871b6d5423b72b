"""Pictures read when they are asked for, from a folder of photos or from an h5 file; damaged ones are named."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.data.lazy import LazyArray
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.errors import check_count

PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_photo(path: str | os.PathLike[str], size: int | None = None) -> Tensor:
    """Read a photo as RGB, upright, and where asked squashed to a square.

    Args:
        path: The file, in any format that Pillow reads.
        size: Height and width in pixels after a bicubic resize that does not keep the aspect; None keeps the photo.

    Returns:
        (3, H, W) uint8.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is cut off or no picture.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"read_photo: expected a photo at {path.absolute()}, there is none. Check the folder.")
    try:
        with Image.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            # A palette with transparency has no direct way to RGB: Pillow warns and guesses.
            through = upright.convert("RGBA") if "transparency" in upright.info else upright
            photo = through.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise DamagedFileError(
            f"read_photo: {path.absolute()} cannot be read as a picture ({error}): replace or remove it."
        ) from error
    if size is not None:
        photo = photo.resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1)  # (3, H, W)


def list_photos(folder: str | os.PathLike[str]) -> list[str]:
    """Name the photos of a folder, in an order that is the same everywhere.

    Args:
        folder: The folder; folders inside are not entered, hidden files are left out.

    Returns:
        File names, sorted.

    Raises:
        FileNotFoundError: If there is no such folder, or no photo in it.
    """
    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"list_photos: expected a folder of photos at {folder}, there is none. Check the path.")
    photos = (entry for entry in folder.iterdir() if entry.suffix.lower() in PHOTO_SUFFIXES)
    names = sorted(photo.name for photo in photos if not photo.name.startswith("."))
    if not names:
        raise FileNotFoundError(
            f"list_photos: {folder} holds no photo ({', '.join(PHOTO_SUFFIXES)}). Put some there or check the path."
        )
    return names


class PhotoFolder(Dataset[Tensor]):
    """Photos read one by one when they are asked for, row i being the photo of name i.

    Args:
        folder: Where the photos lie.
        names: File names in the order of the rows; None takes all photos of the folder, sorted.
        size: Height and width in pixels to squash each photo to.

    Raises:
        FileNotFoundError: If the folder or one of the photos is missing.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> Image.new("RGB", (20, 10), "red").save(folder / "a.png")
        >>> PhotoFolder(folder, size=8)[0].shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, folder: str | os.PathLike[str], names: Sequence[str] | None = None, *, size: int = 192) -> None:
        check_count("PhotoFolder", "size", size)
        self.folder, self.size = Path(folder).absolute(), size
        self.names = list_photos(folder) if names is None else list(names)
        missing = [name for name in self.names if not (self.folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"PhotoFolder: {len(missing)} of {len(self.names)} photos are not in {self.folder}, the first is "
                f"{missing[0]}. Get the photos or leave their rows out."
            )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        return read_photo(self.folder / self.names[index], self.size)

    def fingerprint(self) -> str:
        """Tell this list of photos from any other by names, sizes and dates, without reading the pictures.

        Returns:
            A SHA-256 in hexadecimal.
        """
        digest = hashlib.sha256(str(self.size).encode())
        for name in self.names:
            state = (self.folder / name).stat()
            digest.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        return digest.hexdigest()


class StoredImages(Dataset[Tensor]):
    """Pictures of one size that lie in an h5 file as (M, H, W, 3) bytes, such as those of the embedded world.

    Args:
        path: The file.
        key: Name of the data set in it.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is cut off or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], key: str = "images") -> None:
        remedy = "For scenes, make them again with: cst data make scenes"
        self.array = LazyArray(path, key, who="StoredImages", remedy=remedy)
        if self.array.ndim != 4 or self.array.shape[3] != 3 or self.array.dtype != np.uint8:
            got = f"{self.array.dtype} of shape {self.array.shape}"
            raise DamagedFileError(
                f"StoredImages: expected uint8 pictures (M, H, W, 3) in {self.array.path}, got {got}. {remedy}"
            )

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(self.array[index]).permute(2, 0, 1)  # (3, H, W)

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        """Read a batch for the loader at once."""
        return list(torch.from_numpy(self.array[indices]).permute(0, 3, 1, 2))  # (N, 3, H, W)

    def fingerprint(self) -> str:
        """Tell this file from any other by path, size and date.

        Returns:
            A SHA-256 in hexadecimal.
        """
        state = self.array.path.stat()
        return hashlib.sha256(f"{self.array.path}\0{state.st_size}\0{state.st_mtime_ns}".encode()).hexdigest()
