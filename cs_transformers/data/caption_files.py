"""Writes captions and features in the layout of CS231n, so that ``load_coco_data`` reads every set alike."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cs_transformers.data.captions import CAPTIONS_FILE, VOCABULARY_FILE
from cs_transformers.data.vocabulary import Vocabulary
from cs_transformers.errors import explain
from cs_transformers.files import atomic_path


def write_caption_files(folder: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write captions, vocabulary, addresses and file names of a data set; features are written by themselves.

    Args:
        folder: Where to; it is created. Each file is replaced as a whole.
        data: Dict of a captions data set with the splits "train" and "val".

    Raises:
        ValueError: If a split is missing.
    """
    folder = Path(folder)
    for split in ("train", "val"):
        if f"{split}_captions" not in data:
            fix = "load the json of both splits"
            raise ValueError(explain("write_caption_files", "data", "a data set with train and val", sorted(data), fix))
    keys = [f"{split}_{part}" for split in ("train", "val") for part in ("captions", "image_idxs")]
    with atomic_path(folder / CAPTIONS_FILE, who="write_caption_files") as path, h5py.File(path, "w") as file:
        for key in keys:
            file.create_dataset(key, data=np.asarray(data[key], dtype=np.int32))
    Vocabulary(data["idx_to_word"]).save(folder / VOCABULARY_FILE)
    for split in ("train", "val"):
        write_lines(folder / f"{split}2014_urls.txt", data[f"{split}_urls"])
        if f"{split}_file_names" in data:
            write_lines(folder / f"{split}2014_images.txt", data[f"{split}_file_names"])


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines of text, UTF-8 and with the same line ends everywhere.

    Args:
        path: The file.
        lines: Its lines.
    """
    with atomic_path(path, who="write_lines") as temporary:
        temporary.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))


def write_array(path: str | os.PathLike[str], key: str, blocks: Iterable[np.ndarray], rows: int) -> None:
    """Write an array block by block, so that it never lies in memory as a whole.

    Args:
        path: The file, with the ending .h5.
        key: Name of the data set in it.
        blocks: Pieces along the first axis, in order; the first one sets dtype and the other axes.
        rows: Length of all pieces together.

    Raises:
        ValueError: If the pieces have another length together; the file is then not written.
    """
    with atomic_path(path, who="write_array") as temporary, h5py.File(temporary, "w") as file:
        done = 0
        for block in blocks:
            if not done:
                file.create_dataset(key, shape=(rows, *block.shape[1:]), dtype=block.dtype)
            if done + len(block) > rows:
                done += len(block)
                break
            file[key][done : done + len(block)] = block
            done += len(block)
        if done != rows:
            got = f"{done} or more" if done > rows else str(done)
            raise ValueError(explain("write_array", "blocks", f"{rows} rows together", got, "pass the right rows"))
