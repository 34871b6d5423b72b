"""CIFAR-10, from whichever of its three forms is on disk, always as the same tensors.

The official archive holds the exact pixels of all images; ``cifar10_jpeg.h5`` all images as JPEG (about 8 grey levels
off); ``cifar10_exact_4k1k.h5`` the exact pixels of the first 4,000 + 1,000.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from cs_transformers.data.archives import unpack
from cs_transformers.data.paths import DamagedFileError, cache_dir, find_data, open_h5, require_data
from cs_transformers.errors import check_choice
from cs_transformers.files import atomic_path

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# Per-channel mean and standard deviation of the 50,000 training images, as fractions of the full range.
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2470, 0.2435, 0.2616)
# Each form by what it is recognised by, in order of preference.
CIFAR10_FORMS = {
    "official": (
        "cifar10/cifar-10-batches-py",
        "cifar-10-batches-py",
        "cifar10/cifar-10-python.tar.gz",
        "cifar-10-python.tar.gz",
    ),
    "jpeg": ("cifar10/cifar10_jpeg.h5", "cifar10_jpeg.h5"),
    "exact": ("cifar10/cifar10_exact_4k1k.h5", "cifar10_exact_4k1k.h5"),
}
REMEDY = "Get it with: cst data get cifar10. Without a download, load_images('scenes') gives images of the same shape."
MEND = "Replace the file, or delete it and get the official archive with: cst data get cifar10"


def find_cifar10() -> str | None:
    """Say which form of CIFAR-10 is on disk, the best one first.

    Returns:
        ``"official"``, ``"jpeg"``, ``"exact"`` or None.

    Example:
        >>> find_cifar10() in ("official", "jpeg", "exact", None)
        True
    """
    return next((form for form, names in CIFAR10_FORMS.items() if find_data(*names)), None)


def read_cifar10(form: str, split: str, rows: np.ndarray | None = None, *, progress: bool | None = None) -> Tensor:
    """Read the pixels of one split.

    Args:
        form: ``"official"``, ``"jpeg"`` or ``"exact"``.
        split: ``"train"`` or ``"test"``, as published.
        rows: (M,) numbers of the images wanted; None reads all. JPEG images are then decoded for these alone.
        progress: True or False shows or hides the bar of a long decoding; None shows it on a terminal only.

    Returns:
        (M, 3, 32, 32) uint8.

    Raises:
        ValueError: If ``form`` or ``split`` is none of the named.
        FileNotFoundError: If this form is not on disk.
        DamagedFileError: If its file is; the message says what to do.
    """
    check_choice("read_cifar10", "form", form, tuple(CIFAR10_FORMS))
    check_choice("read_cifar10", "split", split, ("train", "test"))
    path = require_data(*CIFAR10_FORMS[form], who="read_cifar10", remedy=REMEDY)
    if form == "jpeg":
        return torch.from_numpy(_read_jpeg(path, split, rows, progress))
    pixels = _read_exact(path, split)[0] if form == "exact" else _read_official(path, split)[0]  # (M, 32, 32, 3)
    return torch.from_numpy(_channels_first(pixels if rows is None else pixels[rows]))


def _channels_first(pixels: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))  # (M, 3, 32, 32)


def read_cifar10_labels(form: str, split: str) -> np.ndarray:
    """Read the labels of one split, which is quick in every form.

    Args:
        form: ``"official"``, ``"jpeg"`` or ``"exact"``.
        split: ``"train"`` or ``"test"``, as published.

    Returns:
        (M,) int64, indices into ``CIFAR10_CLASSES``.

    Raises:
        ValueError: If ``form`` or ``split`` is none of the named.
        FileNotFoundError: If this form is not on disk.
        DamagedFileError: If its file is.
    """
    check_choice("read_cifar10_labels", "form", form, tuple(CIFAR10_FORMS))
    check_choice("read_cifar10_labels", "split", split, ("train", "test"))
    path = require_data(*CIFAR10_FORMS[form], who="read_cifar10_labels", remedy=REMEDY)
    if form == "jpeg":
        return _read_group(path, split)["labels"].astype(np.int64)
    return (_read_exact(path, split) if form == "exact" else _read_official(path, split))[1].astype(np.int64)


# ----------------------------------------------------------------------------------------------- official archive


def _read_official(path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    from torchvision.datasets import CIFAR10

    root = _unpacked(path) if path.name.endswith(".tar.gz") else path.parent
    _check_batches(root / CIFAR10.base_folder)
    with warnings.catch_warnings():
        # The batches were pickled by a numpy of 2009, whose way of naming a dtype newer ones call deprecated.
        warnings.simplefilter("ignore")
        batches = CIFAR10(root, train=split == "train")
    return batches.data, np.asarray(batches.targets)


def _unpacked(archive: Path) -> Path:
    """Unpack an archive that was put beside the data by hand; its checksum comes first, for it holds pickles."""
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity

    root = cache_dir() / "cifar10"
    if (root / CIFAR10.base_folder / CIFAR10.meta["filename"]).is_file():
        return root
    if not check_integrity(archive, CIFAR10.tgz_md5):
        size = archive.stat().st_size
        raise DamagedFileError(
            f"read_cifar10: {archive} is incomplete or damaged (size {size:,}, md5 not {CIFAR10.tgz_md5}). {MEND}"
        )
    unpack(archive, root)
    return root


def _check_batches(folder: Path) -> None:
    """Name the batch that is missing or damaged: torchvision says only that one is."""
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity

    for name, md5 in [*CIFAR10.train_list, *CIFAR10.test_list, [CIFAR10.meta["filename"], CIFAR10.meta["md5"]]]:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"read_cifar10: expected {path}, there is none. {REMEDY}")
        if not check_integrity(path, md5):
            raise DamagedFileError(
                f"read_cifar10: {path} is incomplete or damaged (size {path.stat().st_size:,}, md5 not {md5}). {MEND}"
            )


# ------------------------------------------------------------------------------------------------------- h5 files


def _read_exact(path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        with open_h5(path, who="read_cifar10", remedy=MEND) as file:
            return file[f"X_{split}"][:], file[f"y_{split}"][:]
    except (KeyError, OSError) as error:
        raise _damaged(path, error) from error


def _read_group(path: Path, split: str) -> dict[str, np.ndarray]:
    try:
        with open_h5(path, who="read_cifar10", remedy=MEND) as file:
            header = file["jpeg_header"][:]
            return {"header": header} | {name: file[split][name][:] for name in ("jpeg_scan", "offsets", "labels")}
    except (KeyError, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> Exception:
    if isinstance(error, DamagedFileError):
        return error
    return DamagedFileError(f"read_cifar10: {path} cannot be read ({error}). {MEND}")


def _read_jpeg(path: Path, split: str, rows: np.ndarray | None, progress: bool | None) -> np.ndarray:
    """Decode what is wanted; a whole split is kept in the cache, because decoding it takes seconds."""
    group = _read_group(path, split)
    count = len(group["labels"])
    kept = cache_dir() / "cifar10" / f"jpeg_{split}_{_digest(group)}.npy"
    pixels = _from_cache(kept, (count, 3, 32, 32))
    if pixels is not None:
        return pixels if rows is None else pixels[rows]
    wanted = np.arange(count) if rows is None else rows
    pixels = _channels_first(_decode(group, wanted, path, progress))
    if rows is None:
        _into_cache(kept, pixels)
    return pixels


def _digest(group: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in ("header", "jpeg_scan", "offsets"):
        digest.update(group[name].tobytes())
    return digest.hexdigest()[:12]


def _decode(group: dict[str, np.ndarray], rows: np.ndarray, path: Path, progress: bool | None) -> np.ndarray:
    header, scan, offsets = group["header"].tobytes(), group["jpeg_scan"].tobytes(), group["offsets"]
    pixels = np.empty((len(rows), 32, 32, 3), dtype=np.uint8)
    hide = None if progress is None else not progress
    for place, row in enumerate(tqdm(rows, desc="decoding CIFAR-10", disable=hide, leave=False)):
        try:
            with Image.open(io.BytesIO(header + scan[offsets[row] : offsets[row + 1]]), formats=["JPEG"]) as image:
                pixels[place] = np.asarray(image)
        except (OSError, ValueError) as error:
            raise _damaged(path, ValueError(f"image {row}: {error}")) from error
    return pixels


def _from_cache(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Read an earlier decoding; one that is damaged counts as none, for it can be made again."""
    try:
        pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return pixels if pixels.shape == shape and pixels.dtype == np.uint8 else None


def _into_cache(path: Path, pixels: np.ndarray) -> None:
    try:
        with atomic_path(path, who="read_cifar10") as temporary:
            np.save(temporary, pixels)
    except OSError as error:
        warnings.warn(f"the decoded images were not kept, the next call decodes them again: {error}", stacklevel=2)
