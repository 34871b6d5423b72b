"""Official COCO caption files and Flickr8k's own, with their photos, as the dict of ``captions``.

There are no features yet: write the dict with ``write_caption_files`` and compute them from the photos that its urls
name.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cs_transformers.data.paths import DamagedFileError, require_data
from cs_transformers.data.vocabulary import Vocabulary
from cs_transformers.errors import check_count, explain

COCO_JSON_REMEDY = (
    "Type `cst data get coco-annotations-{year}`; the photos are at cocodataset.org and go to the folders "
    "train{year} and val{year} beside annotations."
)
FLICKR_JSON_REMEDY = "Type `cst data get flickr8k`, or set CST_DATA_DIR to the folder that holds flickr8k_1000."


@dataclass(frozen=True)
class CaptionedPhoto:
    """A photo and what people wrote about it.

    Args:
        name: File name.
        url: Where to see it: the path of the photo, else its web address.
        number: Its id in the file of captions, or -1.
        captions: The sentences as written.
    """

    name: str
    url: str
    number: int
    captions: tuple[str, ...]


def read_coco_json(
    path: str | os.PathLike[str],
    photos: str | os.PathLike[str] | None = None,
    *,
    split: str | None = None,
    remedy: str = "",
) -> list[CaptionedPhoto]:
    """Read a caption file in COCO's form, plain or gzipped.

    Args:
        path: The json file, UTF-8.
        photos: Folder of the photos; those that are there give their path as url.
        split: Keep only images whose field ``split`` has this value.
        remedy: What the reader can do when the file is damaged; it ends the messages.

    Returns:
        The photos that have captions, in the order of the file.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is cut off or not of this form.
    """
    path = Path(path).absolute()
    if not path.is_file():
        raise FileNotFoundError(f"read_coco_json: expected the file {path}, there is none. {remedy}".rstrip())
    try:
        content = path.read_bytes()
        content = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        sentences: dict[int, list[str]] = {}
        for entry in content["annotations"]:
            sentences.setdefault(entry["image_id"], []).append(entry["caption"])
        images = [image for image in content["images"] if split is None or image.get("split") == split]
        return [_photo(image, sentences[image["id"]], photos) for image in images if image["id"] in sentences]
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFileError(
            f"read_coco_json: {path} is incomplete or no COCO caption file (size {path.stat().st_size}; "
            f"{type(error).__name__}: {str(error)[:80]}): delete it and get it again. {remedy}".rstrip()
        ) from error


def _photo(image: Mapping[str, Any], captions: Sequence[str], photos: str | os.PathLike[str] | None) -> CaptionedPhoto:
    name = image["file_name"]
    local = None if photos is None else Path(photos).absolute() / name
    url = (
        str(local) if local is not None and local.is_file() else image.get("coco_url") or image.get("flickr_url", name)
    )
    return CaptionedPhoto(name, url, int(image["id"]), tuple(captions))


def caption_data(
    splits: Mapping[str, Iterable[CaptionedPhoto]],
    *,
    vocabulary: Vocabulary | None = None,
    min_count: int = 5,
    max_words: int = 15,
) -> dict[str, Any]:
    """Encode captions into the dict of a captions data set, without features.

    Args:
        splits: Photos by name of split; "train" gives the words.
        vocabulary: Words to use instead.
        min_count: Words seen less often in the training captions become ``<UNK>``.
        max_words: Longer captions are cut to so many words; rows are two longer.

    Returns:
        The dict that ``captions`` describes, with ``{split}_image_ids`` and ``{split}_file_names`` beside.

    Raises:
        ValueError: If ``max_words`` or ``min_count`` is below 1, or there is neither "train" nor a vocabulary.
    """
    check_count("caption_data", "max_words", max_words)
    photos = {split: list(entries) for split, entries in splits.items()}
    if vocabulary is None:
        if "train" not in photos:
            fix = "pass the photos of train, or vocabulary="
            raise ValueError(
                explain("caption_data", "splits", "with train, to build the words of", sorted(photos), fix)
            )
        texts = (text for photo in photos["train"] for text in photo.captions)
        vocabulary = Vocabulary.build(texts, min_count=min_count)
    data: dict[str, Any] = {"idx_to_word": vocabulary.idx_to_word, "word_to_idx": vocabulary.word_to_idx}
    for split, entries in photos.items():
        rows = [vocabulary.encode(text, max_words + 2) for photo in entries for text in photo.captions]
        data[f"{split}_captions"] = np.array(rows, dtype=np.int32).reshape(len(rows), max_words + 2)
        counts = [len(photo.captions) for photo in entries]
        data[f"{split}_image_idxs"] = np.repeat(np.arange(len(entries), dtype=np.int32), counts)
        data[f"{split}_urls"] = np.array([photo.url for photo in entries], dtype=str)
        data[f"{split}_file_names"] = np.array([photo.name for photo in entries], dtype=str)
        data[f"{split}_image_ids"] = np.array([photo.number for photo in entries], dtype=np.int64)
    return data


def load_coco_json(
    base_dir: str | os.PathLike[str] | None = None,
    *,
    year: int = 2017,
    vocabulary: Vocabulary | None = None,
    min_count: int = 5,
    max_words: int = 15,
) -> dict[str, Any]:
    """Open COCO as its authors publish it: caption files in ``annotations``, photos in ``train2017`` and ``val2017``.

    Args:
        base_dir: The folder with ``annotations``, or None for ``coco2017`` in ``CST_DATA_DIR`` or the cache.
        year: Of the release, 2014 or 2017; part of the names.
        vocabulary: Words to use; by default those of the training captions.
        min_count: Words seen less often in the training captions become ``<UNK>``.
        max_words: Longer captions are cut to so many words; rows are two longer.

    Returns:
        The dict of ``caption_data`` with the splits "train" and "val"; photos may be missing, captions may not.

    Raises:
        FileNotFoundError: If a caption file is missing; the message names the folder and what to type.
        DamagedFileError: If one is cut off.
    """
    who, remedy = "load_coco_json", COCO_JSON_REMEDY.format(year=year)
    folder = base_dir if base_dir is not None else require_data(f"coco{year}", who=who, remedy=remedy)
    folder = Path(folder).expanduser().absolute()
    files = {split: folder / "annotations" / f"captions_{split}{year}.json" for split in ("train", "val")}
    _require(who, folder, files.values(), remedy)
    splits = {split: read_coco_json(path, folder / f"{split}{year}", remedy=remedy) for split, path in files.items()}
    return caption_data(splits, vocabulary=vocabulary, min_count=min_count, max_words=max_words)


def load_flickr8k_photos(
    base_dir: str | os.PathLike[str] | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    min_count: int = 3,
    max_words: int = 18,
) -> dict[str, Any]:
    """Open Flickr8k as captions and photos, the whole of it or the prepared thousand.

    Args:
        base_dir: Folder with ``captions.json`` and ``images``, or with ``Flickr8k.token.txt``, the lists of the splits
            and ``Flicker8k_Dataset``; None for ``flickr8k`` or ``flickr8k_1000`` in ``CST_DATA_DIR`` or the cache.
        vocabulary: Words to use; by default those of the training captions.
        min_count: Words seen less often in the training captions become ``<UNK>``.
        max_words: Longer captions are cut to so many words; rows are two longer.

    Returns:
        The dict of ``caption_data`` with the splits "train", "val" and "test".

    Raises:
        FileNotFoundError: If a file is missing; the message names the folder and what to type.
        DamagedFileError: If one is cut off.
    """
    who = "load_flickr8k_photos"
    if base_dir is None:
        base_dir = require_data("flickr8k", "flickr8k_1000", who=who, remedy=FLICKR_JSON_REMEDY)
    folder = Path(base_dir).expanduser().absolute()
    if (folder / "captions.json").is_file():
        splits = {
            split: read_coco_json(folder / "captions.json", folder / "images", split=split, remedy=FLICKR_JSON_REMEDY)
            for split in ("train", "val", "test")
        }
    else:
        splits = _read_flickr_text(who, folder)
    return caption_data(splits, vocabulary=vocabulary, min_count=min_count, max_words=max_words)


def _read_flickr_text(who: str, folder: Path) -> dict[str, list[CaptionedPhoto]]:
    lists = {
        split: folder / f"Flickr_8k.{name}Images.txt"
        for split, name in (("train", "train"), ("val", "dev"), ("test", "test"))
    }
    tokens = folder / "Flickr8k.token.txt"
    _require(who, folder, [tokens, *lists.values()], FLICKR_JSON_REMEDY)
    sentences: dict[str, list[str]] = {}
    for line in tokens.read_text(encoding="utf-8").splitlines():
        name, _, text = line.partition("\t")  # "photo.jpg#0<tab>A dog runs ."
        sentences.setdefault(name.rpartition("#")[0], []).append(text)
    splits = {}
    for split, path in lists.items():
        names = path.read_text(encoding="utf-8").split()
        lost = [name for name in names if name not in sentences]
        if lost:
            raise DamagedFileError(
                f"{who}: {tokens} has no captions for {len(lost)} photos of {path.name}, the first is {lost[0]}: "
                f"delete it and get it again. {FLICKR_JSON_REMEDY}"
            )
        photos = folder / "Flicker8k_Dataset"
        splits[split] = [_photo({"file_name": name, "id": -1}, sentences[name], photos) for name in names]
    return splits


def _require(who: str, folder: Path, files: Iterable[Path], remedy: str) -> None:
    missing = [str(path.relative_to(folder)) for path in files if not path.is_file()]
    if missing:
        state = "" if folder.is_dir() else " (no such folder)"
        raise FileNotFoundError(f"{who}: {folder}{state} lacks {', '.join(missing)}. {remedy}")
