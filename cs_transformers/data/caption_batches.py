"""Captions in batches: drawn as Stanford's function does, or as a data set for a ``DataLoader``; ids back to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.data.vocabulary import END, NULL, START
from cs_transformers.errors import check_choice, check_count, explain


class CaptionDataset(Dataset[tuple[Tensor, Tensor]]):
    """The captions of a split, each with the features of its picture, for a ``DataLoader``.

    It holds no open file: it can be pickled, and forked or spawned workers read the same as one process.

    Args:
        data: Dict of a captions data set.
        split: Which captions.

    Raises:
        ValueError: If the data has no such split or no features.
    """

    def __init__(self, data: Mapping[str, Any], split: str = "train") -> None:
        self.captions, rows, self.features = _split_arrays("CaptionDataset", data, split)
        self.image_idxs = np.asarray(rows)

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Give the features (D,) or (S, D) float32 and the caption (T,) int64 of one example."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Give several examples with one read per file; ``DataLoader`` calls this for a batch."""
        chosen = np.asarray(indices)
        features = torch.from_numpy(np.asarray(self.features[self.image_idxs[chosen]], dtype=np.float32))
        captions = torch.from_numpy(np.asarray(self.captions[chosen], dtype=np.int64))
        return list(zip(features, captions, strict=True))


def sample_coco_minibatch(
    data: Mapping[str, Any],
    batch_size: int = 100,
    split: str = "train",
    *,
    rng: np.random.RandomState | np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw captions with their features, with replacement.

    Args:
        data: Dict of a captions data set.
        batch_size: Number of captions N.
        split: Which captions.
        rng: Where the choice comes from; pass one for a repeatable choice. None draws a fresh one each time; numpy's
            global generator is neither used nor changed.

    Returns:
        Captions (N, T) int32, features (N, D) or (N, S, D) float32, urls (N,).

    Raises:
        ValueError: If the data has no such split or no features, or ``batch_size`` is below 1.
    """
    captions, rows, features = _split_arrays("sample_coco_minibatch", data, split)
    check_count("sample_coco_minibatch", "batch_size", batch_size)
    chosen = (np.random.RandomState() if rng is None else rng).choice(len(captions), batch_size)
    pictures = np.asarray(rows)[chosen]
    return captions[chosen], features[pictures], data[f"{split}_urls"][pictures]


def _check_split(who: str, data: Mapping[str, Any], split: str) -> None:
    splits = [key.removesuffix("_captions") for key in data if key.endswith("_captions")]
    check_choice(who, "split", split, splits)


def _split_arrays(who: str, data: Mapping[str, Any], split: str) -> tuple[Any, Any, Any]:
    _check_split(who, data, split)
    if data.get(f"{split}_features") is None:
        fix = "compute them with `cst data features`, or load another data set"
        raise ValueError(explain(who, "data", "a data set with features", f"none for {split}", fix))
    return data[f"{split}_captions"], data[f"{split}_image_idxs"], data[f"{split}_features"]


def decode_captions(captions: Any, idx_to_word: Sequence[str] | Mapping[int, str]) -> str | list[str]:
    """Turn ids into text as Stanford's function does: ``<NULL>`` dropped, ``<START>`` kept, nothing after ``<END>``.

    Args:
        captions: (T,) or (N, T) ids, numpy or torch.
        idx_to_word: The words by id.

    Returns:
        One string for (T,), a list of N strings for (N, T).

    Raises:
        TypeError: If the ids are no whole numbers.
        ValueError: If the shape is another one or an id has no word.

    Example:
        >>> decode_captions([[1, 4, 2, 0], [1, 4, 4, 2]], ["<NULL>", "<START>", "<END>", "<UNK>", "dog"])
        ['<START> dog <END>', '<START> dog dog <END>']
    """
    ids = np.asarray(captions.detach().cpu() if isinstance(captions, Tensor) else captions)
    if ids.ndim not in (1, 2):
        fix = "pass the ids of one caption or of a batch"
        raise ValueError(explain("decode_captions", "captions", "of shape (T,) or (N, T)", ids.shape, fix))
    if ids.size and ids.dtype.kind not in "iu":
        fix = "pass ids, not scores: scores.argmax(-1)"
        raise TypeError(explain("decode_captions", "captions", "whole numbers", ids.dtype, fix))
    texts = [_decode(row, idx_to_word) for row in np.atleast_2d(ids)]
    return texts[0] if ids.ndim == 1 else texts


def _decode(row: np.ndarray, idx_to_word: Sequence[str] | Mapping[int, str]) -> str:
    words: list[str] = []
    for index in (int(entry) for entry in row):
        known = index in idx_to_word if isinstance(idx_to_word, Mapping) else 0 <= index < len(idx_to_word)
        if not known:
            expected = f"ids of the {len(idx_to_word)} words of idx_to_word"
            fix = "use the vocabulary the captions were made with"
            raise ValueError(explain("decode_captions", "captions", expected, index, fix))
        if idx_to_word[index] != NULL:
            words.append(idx_to_word[index])
        if idx_to_word[index] == END:
            break
    return " ".join(words)


def captions_by_image(data: Mapping[str, Any], split: str = "val") -> list[list[str]]:
    """Collect what people wrote about each picture, the references of BLEU and CIDEr.

    Args:
        data: Dict of a captions data set.
        split: Which captions.

    Returns:
        For each row of features the captions of that picture, without special words; empty where it has none.

    Raises:
        ValueError: If the data has no such split.
    """
    _check_split("captions_by_image", data, split)
    references: list[list[str]] = [[] for _ in range(len(data[f"{split}_urls"]))]
    captions, rows = np.asarray(data[f"{split}_captions"]), np.asarray(data[f"{split}_image_idxs"])
    for caption, row in zip(captions, rows, strict=True):
        words = _decode(caption, data["idx_to_word"]).split()
        references[int(row)].append(" ".join(word for word in words if word not in (START, END)))
    return references
