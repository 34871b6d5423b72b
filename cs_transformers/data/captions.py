"""Captions with image features in the layout of CS231n, the same dict for COCO, Flickr8k and the embedded world.

The dict has, for each split, ``{split}_captions`` (M, T) int32 rows ``<START> words <END> <NULL> ...``,
``{split}_image_idxs`` (M,) the row of each caption's picture in ``{split}_features`` and ``{split}_urls``, and once
``idx_to_word`` (list) and ``word_to_idx`` (dict). Small arrays are numpy arrays; large ones are ``LazyArray``, which
index alike but stay on disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cs_transformers.data.caption_batches import (
    CaptionDataset,
    captions_by_image,
    decode_captions,
    sample_coco_minibatch,
)
from cs_transformers.data.lazy import LazyArray, read_array
from cs_transformers.data.paths import DamagedFileError, require_data
from cs_transformers.data.vocabulary import Vocabulary
from cs_transformers.data.web_image import image_from_url
from cs_transformers.errors import check_choice, check_count

__all__ = [
    "CaptionDataset",
    "LazyArray",
    "captions_by_image",
    "decode_captions",
    "feature_file",
    "image_from_url",
    "load_coco_data",
    "load_flickr8k",
    "sample_coco_minibatch",
]

CAPTIONS_FILE, VOCABULARY_FILE = "coco2014_captions.h5", "coco2014_vocab.json"
LAZY_ABOVE = 2**24  # bytes; COCO's arrays stay on disk, those of the small sets are read at once
COCO_REMEDY = (
    "Type `cst data get coco-captions` to get COCO, or `cst data make scenes` to make captioned shapes here and pass "
    "the folder it names as base_dir."
)
GRID_REMEDY = "Grid features do not come with the captions: type `cst data features` to compute them."
FLICKR_REMEDY = "Set CST_DATA_DIR to the folder that holds flickr8k_1000, or type `cst data make scenes` for toy data."


def feature_file(split: str, features: str = "global", pca_features: bool = True) -> str:
    """Name the file of a split's features, data set ``features``, in a folder of the CS231n layout.

    Args:
        split: "train" or "val".
        features: "global" for one vector a picture, (M, D), or "grid" for S vectors a picture, (M, S, D).
        pca_features: Whether the global vectors are the reduced ones.

    Returns:
        A file name.

    Example:
        >>> feature_file("train"), feature_file("val", "grid")
        ('train2014_vgg16_fc7_pca.h5', 'val2014_grid.h5')
    """
    check_choice("feature_file", "features", features, ("global", "grid"))
    if features == "grid":
        return f"{split}2014_grid.h5"
    return f"{split}2014_vgg16_fc7_pca.h5" if pca_features else f"{split}2014_vgg16_fc7.h5"


def load_coco_data(
    base_dir: str | os.PathLike[str] | None = None,
    max_train: int | None = None,
    pca_features: bool = True,
    *,
    features: str = "global",
    seed: int = 231,
    lazy_above: int = LAZY_ABOVE,
) -> dict[str, Any]:
    """Open a folder of captions in the CS231n layout, the real COCO or one made of scenes.

    Args:
        base_dir: The folder, or None for ``coco_captioning`` in ``CST_DATA_DIR`` or the cache.
        max_train: How many training captions to pick, or None for all. They belong to different pictures as far as
            there are enough: two captions of one picture cannot both be learnt from its features.
        pca_features: Whether global features are the reduced ones.
        features: "global" for one vector a picture, "grid" for several.
        seed: Of the pick; the same seed picks the same captions. numpy's global generator is not touched.
        lazy_above: Bytes above which an array stays on disk.

    Returns:
        The dict that the module describes, with the splits "train" and "val".

    Raises:
        FileNotFoundError: If files are missing; the message names the folder, the files, and what to type.
        DamagedFileError: If one is cut off or two contradict each other.
        ValueError: If an argument is none of the choices.
    """
    who = "load_coco_data"
    check_choice(who, "features", features, ("global", "grid"))
    folder = Path(base_dir if base_dir is not None else require_data("coco_captioning", who=who, remedy=COCO_REMEDY))
    folder = folder.expanduser().absolute()
    parts = {split: feature_file(split, features, pca_features) for split in ("train", "val")}
    urls = {split: f"{split}2014_urls.txt" for split in parts}
    _require_files(who, folder, [CAPTIONS_FILE, VOCABULARY_FILE, *parts.values(), *urls.values()], COCO_REMEDY)
    reading = {"lazy_above": lazy_above, "who": who, "remedy": COCO_REMEDY}
    data: dict[str, Any] = {}
    for split in parts:
        for key in (f"{split}_captions", f"{split}_image_idxs"):
            data[key] = read_array(folder / CAPTIONS_FILE, key, **reading)
    for split, name in parts.items():
        data[f"{split}_features"] = read_array(folder / name, "features", dtype=np.float32, **reading)
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE, remedy=COCO_REMEDY)
    data |= {"idx_to_word": vocabulary.idx_to_word, "word_to_idx": vocabulary.word_to_idx}
    for split, name in urls.items():
        data[f"{split}_urls"] = np.array((folder / name).read_text(encoding="utf-8").splitlines())
        check_split(who, data, split, folder, COCO_REMEDY)
    return pick_captions(data, max_train, seed, who=who)


def load_flickr8k(
    base_dir: str | os.PathLike[str] | None = None,
    max_train: int | None = None,
    pca_features: bool = True,
    *,
    features: str = "global",
    seed: int = 231,
) -> dict[str, Any]:
    """Open the prepared part of Flickr8k: 1,000 photos, five captions each, with features of a pretrained network.

    Args:
        base_dir: The folder with ``h5`` and ``images``, or None for ``flickr8k_1000`` in ``CST_DATA_DIR`` or the cache.
        max_train: How many training captions to pick, as in ``load_coco_data``.
        pca_features: Whether the global vectors are the reduced ones, 512 wide, or all 1,280.
        features: "global" for one vector a photo, "grid" for the 36 of a 6 x 6 grid, 128 wide.
        seed: Of the pick.

    Returns:
        The dict that the module describes, with the splits "train", "val" and "test"; urls are paths of photos.

    Raises:
        FileNotFoundError: If files are missing.
        DamagedFileError: If one is cut off or two contradict each other.
        ValueError: If an argument is none of the choices.
    """
    who = "load_flickr8k"
    check_choice(who, "features", features, ("global", "grid"))
    folder = Path(base_dir if base_dir is not None else require_data("flickr8k_1000", who=who, remedy=FLICKR_REMEDY))
    folder = folder.expanduser().absolute()
    splits = ("train", "val", "test")
    names = ["captions.h5", "features.h5", "vocab.json", *(f"{split}_images.txt" for split in splits)]
    _require_files(who, folder / "h5", names, FLICKR_REMEDY)
    kind = "grid_pca128" if features == "grid" else "features_pca512" if pca_features else "features"
    reading = {"lazy_above": LAZY_ABOVE, "who": who, "remedy": FLICKR_REMEDY}
    vocabulary = Vocabulary.load(folder / "h5" / "vocab.json", remedy=FLICKR_REMEDY)
    data: dict[str, Any] = {"idx_to_word": vocabulary.idx_to_word, "word_to_idx": vocabulary.word_to_idx}
    for split in splits:
        for key in (f"{split}_captions", f"{split}_image_idxs"):
            data[key] = read_array(folder / "h5" / "captions.h5", key, **reading)
        stored = folder / "h5" / "features.h5"
        data[f"{split}_features"] = read_array(stored, f"{split}_{kind}", dtype=np.float32, **reading)
        photos = (folder / "h5" / f"{split}_images.txt").read_text(encoding="utf-8").splitlines()
        data[f"{split}_urls"] = np.array([str(folder / "images" / name) for name in photos])
        check_split(who, data, split, folder, FLICKR_REMEDY)
    return pick_captions(data, max_train, seed, who=who)


def _require_files(who: str, folder: Path, names: Sequence[str], remedy: str) -> None:
    missing = [name for name in names if not (folder / name).is_file()]
    if not missing:
        return
    if all(name.endswith("_grid.h5") for name in missing):
        remedy = GRID_REMEDY
    state = "" if folder.is_dir() else " (no such folder)"
    raise FileNotFoundError(f"{who}: {folder}{state} lacks {', '.join(missing)}. {remedy}")


def check_split(who: str, data: Mapping[str, Any], split: str, folder: Path, remedy: str) -> None:
    """Hold the arrays of a split against each other.

    Args:
        who: The public function that read them; it opens the message.
        data: Dict of a captions data set.
        split: Name of the split.
        folder: Where the arrays come from.
        remedy: What the reader can do; it ends the message.

    Raises:
        DamagedFileError: If their lengths or numbers contradict each other.
    """
    captions, rows = data[f"{split}_captions"], np.asarray(data[f"{split}_image_idxs"])
    pictures = len(data[f"{split}_urls"])
    features = data.get(f"{split}_features")
    fault = ""
    if captions.ndim != 2 or rows.shape != (len(captions),):
        fault = f"captions of shape {captions.shape} for image_idxs of shape {rows.shape}"
    elif features is not None and len(features) != pictures:
        fault = f"{len(features)} rows of features for {pictures} urls"
    elif rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < pictures:
        fault = f"image_idxs from {rows.min()} to {rows.max()} for {pictures} pictures"
    if fault:
        raise DamagedFileError(f"{who}: files of {split} in {folder} contradict each other ({fault}). {remedy}")


def pick_captions(data: dict[str, Any], max_train: int | None, seed: int, *, who: str) -> dict[str, Any]:
    """Keep some of the training captions, of different pictures as far as there are enough.

    Args:
        data: Dict of a captions data set; it is not changed.
        max_train: How many to keep, or None for all.
        seed: Of the choice.
        who: The public function for which this is done; it opens the message.

    Returns:
        A dict with fewer ``train_captions`` and ``train_image_idxs``, in memory; features stay whole.

    Raises:
        ValueError: If ``max_train`` is below 1.
    """
    if max_train is None:
        return data
    check_count(who, "max_train", max_train)
    rows = np.asarray(data["train_image_idxs"])
    order = np.random.RandomState(seed).permutation(len(rows))
    first = np.sort(np.unique(rows[order], return_index=True)[1])  # where each picture turns up for the first time
    chosen = np.concatenate([order[first], np.delete(order, first)])[:max_train]
    return data | {"train_captions": data["train_captions"][chosen], "train_image_idxs": rows[chosen]}
