"""Writes the embedded world in the layout of CS231n, once, into the cache; one loader reads it and the real COCO.

The features here follow from the pixels by fixed integer arithmetic: enough to try a captioner and to overfit it. A
trained encoder's features go into files of the same names.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from cs_transformers.data.caption_files import write_array, write_caption_files, write_lines
from cs_transformers.data.captions import feature_file
from cs_transformers.data.lazy import LazyArray
from cs_transformers.data.paths import cache_dir
from cs_transformers.data.scene_language import MAX_WORDS, describe
from cs_transformers.data.scenes import Scene, make_scenes, render, scene_from_url
from cs_transformers.data.vocabulary import Vocabulary
from cs_transformers.errors import check_count, explain
from cs_transformers.files import ensure_folder

SCENES_FILE = "scenes.json"  # marks a folder as ours to replace, and says what is in it
CAPTION_LENGTH = MAX_WORDS + 2
_FORMAT = 1  # raised when the same seed no longer gives the same files
_VAL_SEED = 1_000_003  # added to the seed, so that validation scenes come from a series of their own
_GREY = 48  # about the level of a background
_BLOCK = 256


@cache
def scene_vocabulary() -> Vocabulary:
    """Give the vocabulary of all scene captions, the same for every seed and number of scenes.

    Returns:
        The special words and 34 more, the most frequent first.

    Example:
        >>> len(scene_vocabulary())
        38
    """
    return Vocabulary.build(caption for scene in make_scenes(300, seed=0) for caption in describe(scene))


@cache
def _signs(rows: int, columns: int) -> np.ndarray:
    return np.random.RandomState([rows, columns]).randint(0, 2, size=(rows, columns), dtype=np.int64) * 2.0 - 1.0


def scene_features(images: np.ndarray) -> dict[str, np.ndarray]:
    """Compute features of scenes from their pixels alone, the same to the last bit everywhere.

    All products are of whole numbers below 2^53, which float64 adds exactly in any order.

    Args:
        images: (M, 64, 64, 3) uint8.

    Returns:
        "full" (M, 768) float32, the colours of 16 x 16 blocks; "pca" (M, 512) float32, a fixed projection of these, in
        the place of COCO's reduced features; "grid" (M, 64, 64) float16, a projection of each of 8 x 8 patches.

    Raises:
        ValueError: If the images have another shape.

    Example:
        >>> {name: array.shape for name, array in scene_features(np.zeros((2, 64, 64, 3), np.uint8)).items()}
        {'full': (2, 768), 'pca': (2, 512), 'grid': (2, 64, 64)}
    """
    if images.ndim != 4 or images.shape[1:] != (64, 64, 3):
        fix = "render scenes with side=64"
        raise ValueError(explain("scene_features", "images", "of shape (M, 64, 64, 3)", images.shape, fix))
    return {kind: compute(images) for kind, compute in _FEATURES.items()}


def _full(images: np.ndarray) -> np.ndarray:
    return (_block_sums(images) / 1024).astype(np.float32)


def _pca(images: np.ndarray) -> np.ndarray:
    return (_block_sums(images) @ _signs(768, 512) / 16384).astype(np.float32)


def _grid(images: np.ndarray) -> np.ndarray:
    patches = images.reshape(-1, 8, 8, 8, 8, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 64, 192)
    return ((patches.astype(np.float64) - _GREY) @ _signs(192, 64) / 1024).astype(np.float16)


def _block_sums(images: np.ndarray) -> np.ndarray:
    blocks = images.reshape(-1, 16, 4, 16, 4, 3).sum(axis=(2, 4), dtype=np.int64)  # (M, 16, 16, 3)
    return blocks.reshape(-1, 768) - 16.0 * _GREY


_FEATURES = {"full": _full, "pca": _pca, "grid": _grid}


def write_scenes(
    folder: str | os.PathLike[str],
    *,
    train: int = 2000,
    val: int = 500,
    seed: int = 231,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Make scenes and write them as a captions data set with pictures.

    Beside the files of ``load_coco_data`` the folder gets ``{split}2014_images.h5`` (data set ``images``, uint8) and
    ``scenes.json``. It appears whole or not at all; a folder made by this function is replaced.

    Args:
        folder: Where to.
        train: Number of training scenes, five captions each.
        val: Number of validation scenes, of another series.
        seed: Seed of both series.
        progress: Called with (scenes done, scenes in all) after each split.

    Returns:
        The folder as an absolute path.

    Raises:
        ValueError: If a number is out of range, or the folder holds something else.
        PermissionError: If it cannot be written to.
    """
    folder = Path(folder).expanduser().absolute()
    for name, value, least in (("train", train, 1), ("val", val, 1), ("seed", seed, 0)):
        check_count("write_scenes", name, value, minimum=least)
    _require_ours(folder)
    ensure_folder(folder.parent, who="write_scenes")
    before = _inode(folder)
    staged = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    try:
        _fill(staged, {"train": (train, seed), "val": (val, seed + _VAL_SEED)}, progress)
        content = {"format": _FORMAT, "train": train, "val": val, "seed": seed}
        write_lines(staged / SCENES_FILE, [json.dumps(content)])
        _put_in_place(staged, folder, before)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder


def _require_ours(folder: Path) -> None:
    if folder.is_dir() and (not any(folder.iterdir()) or (folder / SCENES_FILE).is_file()):
        return
    if folder.exists():
        expected = "a new or empty folder, or one that write_scenes made"
        raise ValueError(explain("write_scenes", "folder", expected, folder, "name another folder"))


def _inode(folder: Path) -> int | None:
    return folder.stat().st_ino if folder.exists() else None


def _put_in_place(staged: Path, folder: Path, before: int | None) -> None:
    """Let the new folder take the place of the one that was there before; one that came meanwhile is kept."""
    old = staged.with_name(staged.name + ".old")
    if before is not None and _inode(folder) == before:
        with contextlib.suppress(FileNotFoundError):  # another process is just doing the same
            folder.rename(old)
    try:
        staged.rename(folder)
    except OSError:  # another process was faster with the same scenes
        if not (folder / SCENES_FILE).is_file():
            raise
    shutil.rmtree(old, ignore_errors=True)


def _fill(folder: Path, parts: dict[str, tuple[int, int]], progress: Callable[[int, int], None] | None) -> None:
    vocabulary = scene_vocabulary()
    data: dict = {"idx_to_word": vocabulary.idx_to_word}
    total, done = sum(count for count, _ in parts.values()), 0
    for split, (count, seed) in parts.items():
        scenes = make_scenes(count, seed)
        captions = [vocabulary.encode(text, CAPTION_LENGTH) for scene in scenes for text in describe(scene)]
        data[f"{split}_captions"] = np.stack(captions)
        data[f"{split}_image_idxs"] = np.repeat(np.arange(count), len(captions) // count)
        data[f"{split}_urls"] = [scene.url for scene in scenes]
        data[f"{split}_file_names"] = [f"{seed}_{scene.number}" for scene in scenes]
        pictures = folder / f"{split}2014_images.h5"
        write_array(pictures, "images", _image_blocks(scenes), count)
        images = LazyArray(pictures, "images", who="write_scenes")
        files = {"pca": feature_file(split), "full": feature_file(split, pca_features=False)}
        for kind, name in (files | {"grid": feature_file(split, "grid")}).items():
            blocks = (_FEATURES[kind](images[start : start + _BLOCK]) for start in range(0, count, _BLOCK))
            write_array(folder / name, "features", blocks, count)
        done += count
        if progress is not None:
            progress(done, total)
    write_caption_files(folder, data)


def _image_blocks(scenes: list[Scene]) -> Iterator[np.ndarray]:
    for start in range(0, len(scenes), _BLOCK):
        yield np.stack([render(scene) for scene in scenes[start : start + _BLOCK]])


def ensure_scenes(
    train: int = 2000, val: int = 500, seed: int = 231, *, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Give the folder of a captions data set made of scenes, and make it first if it is not there.

    Args:
        train: Number of training scenes.
        val: Number of validation scenes.
        seed: Seed of both series.
        progress: Called with (scenes done, scenes in all) after each split.

    Returns:
        A folder in the cache, for ``load_coco_data``.

    Raises:
        ValueError: If a number is out of range.
        PermissionError: If the cache cannot be written to.
    """
    folder = cache_dir() / "scenes" / f"seed{seed}-train{train}-val{val}"
    wanted = {"format": _FORMAT, "train": train, "val": val, "seed": seed}
    try:
        if json.loads((folder / SCENES_FILE).read_text(encoding="utf-8")) == wanted:
            return folder
    except (OSError, ValueError):
        pass
    return write_scenes(folder, train=train, val=val, seed=seed, progress=progress)


def scenes_of(urls: np.ndarray | list[str]) -> list[Scene]:
    """Give the scenes that a data set's ``{split}_urls`` name, to hold captions against them.

    Args:
        urls: Addresses that start with ``scene://``.

    Returns:
        One scene for each.

    Raises:
        ValueError: If one is no scene's address.
    """
    return [scene_from_url(str(url)) for url in urls]
