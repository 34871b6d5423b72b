"""Images with labels, whatever they come from: the embedded world, CIFAR-10, or a folder of photos.

One front, ``load_images``; the test split is for the last number of a report, never for choosing anything, so the
validation split is taken out of the training images.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.data.cifar import (
    CIFAR10_CLASSES,
    CIFAR10_FORMS,
    CIFAR10_MEAN,
    CIFAR10_STD,
    REMEDY,
    find_cifar10,
    read_cifar10,
    read_cifar10_labels,
)
from cs_transformers.data.photos import list_photos, read_photo
from cs_transformers.data.scenes import SCENE_CLASSES, make_scenes, render, scene_class
from cs_transformers.errors import check_choice, check_count, explain

__all__ = [
    "CIFAR10_CLASSES",
    "CIFAR10_MEAN",
    "CIFAR10_STD",
    "ImageDataset",
    "LabelledImages",
    "balanced_subset",
    "channel_statistics",
    "find_cifar10",
    "hold_out",
    "load_cifar10",
    "load_image_folder",
    "load_images",
    "load_scene_images",
    "normalise",
]

SPLITS = ("train", "val", "test")
SPLIT_SEED = 231
# Each split of the embedded world is a series of its own: its seed, and how many images it has unless told.
SCENE_SERIES = {"train": (231, 4000), "val": (232, 500), "test": (233, 1000)}


class LabelledImages(NamedTuple):
    """Images (M, 3, H, W) uint8, labels (M,) int64, and the names of the classes."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]


def load_images(
    data: str | os.PathLike[str] = "scenes",
    split: str = "train",
    *,
    count: int | None = None,
    val_size: int | None = None,
    size: int = 32,
    fallback: bool = False,
    progress: bool | None = None,
) -> LabelledImages:
    """Load a split of a classification set by the name of the set.

    Args:
        data: ``"scenes"``, ``"cifar10"`` (the best form on disk), ``"cifar10-official"``, ``"cifar10-jpeg"``,
            ``"cifar10-exact"``, or the path of a folder as ``load_image_folder`` takes it.
        split: ``"train"``, ``"val"`` or ``"test"``.
        count: Keep only so many images, as many of each class as can be; None keeps all.
        val_size: Images to take out of the training images for ``"val"``; give the same number for both splits.
            None takes a tenth for ``"val"`` and, so that nothing overlaps, from ``"train"`` as well. 0 leaves all
            images in ``"train"``. The embedded world needs no such cut: its splits are series of their own.
        size: Height and width in pixels of scenes and folder photos; CIFAR-10 has 32.
        fallback: Give scenes, with a warning, where the data is not on disk.
        progress: True or False shows or hides bars; None shows them on a terminal only.

    Returns:
        The images, labels and class names.

    Raises:
        ValueError: If ``data`` or ``split`` is unknown, or a number does not fit.
        FileNotFoundError: If the data is not on disk and there is no fallback.
        DamagedFileError: If a file of it is damaged; never replaced by the fallback.

    Example:
        >>> images, labels, classes = load_images("scenes", "val", count=20)
        >>> images.shape, labels.bincount().tolist(), len(classes)
        (torch.Size([20, 3, 32, 32]), [2, 2, 2, 2, 2, 2, 2, 2, 2, 2], 10)
    """
    check_choice("load_images", "split", split, SPLITS)
    name = os.fspath(data)
    try:
        if name == "scenes":
            return load_scene_images(split, count=count, size=size)
        if name == "cifar10" or name.removeprefix("cifar10-") in CIFAR10_FORMS:
            source = name.removeprefix("cifar10").removeprefix("-") or "auto"
            return load_cifar10(source, split, count=count, val_size=val_size, progress=progress)
        if Path(name).is_dir():
            return load_image_folder(name, split, count=count, val_size=val_size, size=size)
    except FileNotFoundError as error:
        if not fallback:
            raise
        warnings.warn(f"scenes stand in for {name}. {error}", stacklevel=2)
        return load_scene_images(split, count=count, size=size)
    known = ", ".join(["scenes", "cifar10", *(f"cifar10-{form}" for form in CIFAR10_FORMS)])
    raise ValueError(explain("load_images", "data", f"a folder or one of {known}", repr(name), "check the spelling"))


def load_cifar10(
    source: str = "auto",
    split: str = "train",
    *,
    count: int | None = None,
    val_size: int | None = 0,
    progress: bool | None = None,
) -> LabelledImages:
    """Load CIFAR-10 as it was published, or with a validation split.

    Args:
        source: ``"official"`` (torchvision's archive), ``"jpeg"``, ``"exact"``, or ``"auto"`` for the first of these
            that is on disk.
        split: ``"train"``, ``"val"`` or ``"test"``.
        count: Keep only so many images, as many of each class as can be; None keeps all.
        val_size: Images taken out of the published training images for ``"val"``. With 0, ``"train"`` is all of them
            and there is no ``"val"``; None takes a tenth.
        progress: True or False shows or hides the bar of a long decoding; None shows it on a terminal only.

    Returns:
        Images (M, 3, 32, 32) uint8, labels and class names.

    Raises:
        ValueError: If ``source`` or ``split`` is unknown, or a number does not fit.
        FileNotFoundError: If the form is not on disk; the message says how to get it.
        DamagedFileError: If a file of it is damaged.

    Source:
        Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images.
    """
    check_choice("load_cifar10", "source", source, ("auto", *CIFAR10_FORMS))
    check_choice("load_cifar10", "split", split, SPLITS)
    form = find_cifar10() if source == "auto" else source
    if form is None:
        raise FileNotFoundError(f"load_cifar10: CIFAR-10 is not on disk in any form. {REMEDY}")
    published = "test" if split == "test" else "train"
    labels = read_cifar10_labels(form, published)
    rows = _rows("load_cifar10", labels, "all" if split == "test" else split, count, val_size)
    images = read_cifar10(form, published, None if len(rows) == len(labels) else rows, progress=progress)
    return LabelledImages(images, torch.from_numpy(labels[rows]), CIFAR10_CLASSES)


def load_scene_images(split: str = "train", *, count: int | None = None, size: int = 32) -> LabelledImages:
    """Make classification images from the embedded world: one shape each, ten classes, in CIFAR's format.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``: three series that share no scene.
        count: How many, as many of each class as can be; None gives 4,000, 500 and 1,000.
        size: Height and width in pixels, at least 32.

    Returns:
        Images (M, 3, size, size) uint8, labels and class names.

    Raises:
        ValueError: If ``split`` is unknown or a number does not fit.

    Example:
        >>> load_scene_images("train", count=10).labels.sort().values.tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    check_choice("load_scene_images", "split", split, SPLITS)
    seed, usual = SCENE_SERIES[split]
    if count is not None:
        check_count("load_scene_images", "count", count)
    # Classes come at random: a surplus of scenes, of which few are drawn, lets each class fill its share.
    scenes = make_scenes(usual if count is None else 2 * count + 100, seed, objects=(1, 1), side=size, grid=2)
    labels = np.array([scene_class(scene) for scene in scenes], dtype=np.int64)
    rows = np.arange(usual) if count is None else balanced_subset(labels, count)
    pixels = np.stack([render(scenes[row]).transpose(2, 0, 1) for row in rows])  # (M, 3, size, size)
    return LabelledImages(torch.from_numpy(pixels), torch.from_numpy(labels[rows]), SCENE_CLASSES)


def load_image_folder(
    folder: str | os.PathLike[str],
    split: str = "train",
    *,
    count: int | None = None,
    val_size: int | None = None,
    size: int = 32,
) -> LabelledImages:
    """Load photos that lie in one folder per class, with or without a folder per split above them.

    Args:
        folder: ``folder/train/dog/a.jpg`` or ``folder/dog/a.jpg``; classes are numbered in the order of their names.
        split: ``"train"``, ``"val"`` or ``"test"``. Without a ``val`` folder, validation images are taken out of the
            training images; a test split is never made up.
        count: Keep only so many images, as many of each class as can be; None keeps all.
        val_size: Images to take out for ``"val"`` where there is no such folder; None takes a tenth, 0 none.
        size: Height and width in pixels that photos are squashed to.

    Returns:
        Images (M, 3, size, size) uint8, labels and class names.

    Raises:
        ValueError: If ``split`` is unknown or a number does not fit.
        FileNotFoundError: If a folder or its photos are missing.
        DamagedFileError: If a photo cannot be read.
    """
    check_choice("load_image_folder", "split", split, SPLITS)
    check_count("load_image_folder", "size", size)
    top = Path(folder).absolute()
    own, is_cut = top / split, split == "train" and not (top / "val").is_dir()
    if not own.is_dir():
        if split == "test":
            raise FileNotFoundError(f"load_image_folder: expected the folder {own}, there is none. Make one.")
        own, is_cut = top / "train" if (top / "train").is_dir() else top, True
    classes = _class_folders(own)
    photos = [(own / name / photo, label) for label, name in enumerate(classes) for photo in list_photos(own / name)]
    labels = np.array([label for _, label in photos], dtype=np.int64)
    rows = _rows("load_image_folder", labels, split if is_cut else "all", count, val_size)
    images = torch.stack([read_photo(photos[row][0], size) for row in rows])  # (M, 3, size, size)
    return LabelledImages(images, torch.from_numpy(labels[rows]), classes)


def _class_folders(folder: Path) -> tuple[str, ...]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    classes = tuple(name for name in names if not name.startswith("."))
    if not classes:
        raise FileNotFoundError(f"load_image_folder: expected a folder per class in {folder}, found none. Make some.")
    return classes


def _rows(who: str, labels: np.ndarray, part: str, count: int | None, val_size: int | None) -> np.ndarray:
    """Choose rows: all of them, or the part of the published training images that is ``"train"`` or ``"val"``."""
    rows = np.arange(len(labels))
    if part == "val" and val_size == 0:
        fix = "pass the same number for train and val, such as 5000"
        raise ValueError(explain(who, "val_size", "positive for the split 'val'", val_size, fix))
    if part != "all" and val_size != 0:
        rows = hold_out(labels, len(labels) // 10 if val_size is None else val_size)[part == "val"]
    return rows if count is None else rows[balanced_subset(labels[rows], count)]


def hold_out(labels: Sequence[int] | np.ndarray, size: int, seed: int = SPLIT_SEED) -> tuple[np.ndarray, np.ndarray]:
    """Cut rows into two parts that share none, with the classes in the same proportions.

    Args:
        labels: (M,) class of each row.
        size: Rows of the second part.
        seed: The cut depends on it and on the labels, on no global state.

    Returns:
        The rows that stay and the rows held out, both ascending.

    Raises:
        ValueError: If ``size`` is not within 1 .. M - 1.

    Example:
        >>> stay, held = hold_out([0, 0, 0, 0, 1, 1, 1, 1], 2)
        >>> len(stay), len(held), len(set(stay) & set(held))
        (6, 2, 0)
    """
    labels = np.asarray(labels)
    check_count("hold_out", "size", size)
    if size >= len(labels):
        raise ValueError(explain("hold_out", "size", f"below the {len(labels)} rows", size, "hold out fewer"))
    held = _draw(labels, _proportional(np.bincount(labels), size), seed)
    stay = np.setdiff1d(np.arange(len(labels)), held)
    return stay, held


def balanced_subset(labels: Sequence[int] | np.ndarray, count: int, seed: int = SPLIT_SEED) -> np.ndarray:
    """Choose rows so that every class has the same number, as far as there are enough.

    Args:
        labels: (M,) class of each row.
        count: Rows to choose.
        seed: The choice depends on it and on the labels, on no global state.

    Returns:
        (count,) rows, ascending.

    Raises:
        ValueError: If ``count`` is not within 1 .. M.

    Example:
        >>> np.bincount(np.array([0, 0, 0, 0, 0, 1, 1])[balanced_subset([0, 0, 0, 0, 0, 1, 1], 4)]).tolist()
        [2, 2]
    """
    labels = np.asarray(labels)
    check_count("balanced_subset", "count", count)
    if count > len(labels):
        raise ValueError(explain("balanced_subset", "count", f"at most the {len(labels)} rows", count, "take fewer"))
    present = np.bincount(labels)
    quota = np.zeros_like(present)
    while (left := count - quota.sum()) > 0:  # small classes give all they have, the others share the rest
        open_classes = np.flatnonzero(quota < present)
        share = max(1, left // len(open_classes))
        for label in open_classes[:left]:
            quota[label] = min(present[label], quota[label] + share)
    return _draw(labels, quota, seed)


def _proportional(present: np.ndarray, size: int) -> np.ndarray:
    """Split a size in proportion to counts; what rounding leaves goes to the largest remainders, low labels first."""
    quota, rest = np.divmod(present * size, present.sum())
    quota[np.argsort(-rest, kind="stable")[: size - quota.sum()]] += 1
    return quota


def _draw(labels: np.ndarray, quota: np.ndarray, seed: int) -> np.ndarray:
    random = np.random.RandomState(seed)
    chosen = [random.permutation(np.flatnonzero(labels == label))[:share] for label, share in enumerate(quota)]
    return np.sort(np.concatenate(chosen))


def normalise(images: Tensor, mean: Sequence[float] | None = None, std: Sequence[float] | None = None) -> Tensor:
    """Turn bytes into numbers around zero: (x / 255 - mean) / std, channel by channel.

    Args:
        images: (..., C, H, W) uint8, 0 .. 255.
        mean: C means as fractions of the full range; None subtracts nothing.
        std: C standard deviations as fractions of the full range; None divides by nothing.

    Returns:
        (..., C, H, W) float32.

    Raises:
        TypeError: If ``images`` are not uint8: they may have been scaled already.
        ValueError: If the number of channels differs.

    Example:
        >>> normalise(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8), mean=[0.5], std=[0.25]).unique()
        tensor([2.])
    """
    if images.dtype != torch.uint8:
        fix = "pass the stored images, they are scaled here"
        raise TypeError(explain("normalise", "images", "of dtype torch.uint8", images.dtype, fix))
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) != images.size(-3):
            expected = f"one number for each of the {images.size(-3)} channels"
            raise ValueError(explain("normalise", name, expected, len(values), "pass one per channel"))
    scaled = images.float() / 255
    if mean is not None:
        scaled -= scaled.new_tensor(mean)[:, None, None]
    if std is not None:
        scaled /= scaled.new_tensor(std)[:, None, None]
    return scaled


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measure mean and standard deviation of each channel; take them from training images only.

    Args:
        images: (M, C, H, W) uint8.

    Returns:
        C means and C standard deviations, as fractions of the full range.

    Example:
        >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1))
        ((0.5,), (0.5,))
    """
    values = torch.arange(256, dtype=torch.float64) / 255
    mean, std = [], []
    for channel in images.unbind(1):  # counting grey levels is exact and needs no copy in floating point
        share = torch.bincount(channel.flatten().int(), minlength=256).double() / channel.numel()
        mean.append(float(share @ values))
        std.append(float((share @ (values - mean[-1]) ** 2).sqrt()))
    return tuple(mean), tuple(std)


class ImageDataset(Dataset[tuple[Tensor, int]]):
    """Labelled images for a ``DataLoader``: kept as bytes, normalised when they are asked for.

    Args:
        images: (M, C, H, W) uint8.
        labels: (M,) class of each image.
        mean: C means for ``normalise``; None subtracts nothing.
        std: C standard deviations for ``normalise``; None divides by nothing.

    Raises:
        ValueError: If the numbers of images and labels differ.

    Example:
        >>> images, labels, _ = load_images("scenes", "val", count=20)
        >>> image, label = ImageDataset(images, labels)[3]
        >>> image.shape, image.dtype, label == labels[3]
        (torch.Size([3, 32, 32]), torch.float32, tensor(True))
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        if len(images) != len(labels):
            got = f"{len(images)} images and {len(labels)} labels"
            raise ValueError(explain("ImageDataset", "labels", "one for each image", got, "pass both of one split"))
        normalise(images[:1], mean, std)  # a wrong dtype or number of channels shows here, not in a worker
        self.images, self.labels, self.mean, self.std = images, labels, mean, std

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return normalise(self.images[index], self.mean, self.std), int(self.labels[index])

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
        """Fetch a batch for the loader in one operation."""
        images, labels = self.batch(torch.as_tensor(indices))
        return list(zip(images, labels.tolist(), strict=True))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Fetch rows at once, which is quicker than one by one.

        Args:
            indices: (N,) int64 rows.

        Returns:
            (N, C, H, W) float32 images and (N,) int64 labels.
        """
        return normalise(self.images[indices], self.mean, self.std), self.labels[indices]
