"""Sentence pairs: two files with a translation on each line, and batches of pairs of like length."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.data.paths import DamagedFileError, require_data
from cs_transformers.data.tokens import NULL_ID, Tokenizer, split_words
from cs_transformers.errors import check_choice, check_count, explain

Pairs = list[tuple[str, str]]
MULTI30K_SPLITS = ("train", "val", "test_2016_flickr")
REMEDY = "Get it with: cst data get multi30k"


def load_multi30k(split: str = "train", *, source: str = "de", target: str = "en") -> Pairs:
    """Read the captions of Multi30k: what people wrote about photos, and its translation by professionals.

    Args:
        split: "train" (29,000 pairs), "val" (1,014) or "test_2016_flickr" (1,000).
        source: Language to translate from, "de" or "en".
        target: Language to translate into.

    Returns:
        Pairs (source, target), in the order of the files.

    Raises:
        FileNotFoundError: If the data is not on disk.
        ValueError: If split or languages are unknown, or the two files do not belong together.
        DamagedFileError: If a file cannot be read.

    Source:
        Elliott et al. 2016, Multi30K, arXiv:1605.00459.
    """
    check_choice("load_multi30k", "split", split, MULTI30K_SPLITS)
    for name, language in (("source", source), ("target", target)):
        check_choice("load_multi30k", name, language, ("de", "en"))
    return read_pairs(require_data("multi30k", who="load_multi30k", remedy=REMEDY), split, source=source, target=target)


def read_pairs(folder: str | Path, split: str, *, source: str, target: str) -> Pairs:
    """Read ``split.source`` and ``split.target``, plain or with ``.gz`` behind: UTF-8, one sentence a line.

    Args:
        folder: Where the files are.
        split: First part of their names, "train" say.
        source: Language of the first, "de" say.
        target: Language of the second.

    Returns:
        Pairs (source, target); pairs of which a side is empty are left out.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the numbers of lines differ.
        DamagedFileError: If a file cannot be read.
    """
    ours, theirs = (_read_lines(Path(folder), f"{split}.{language}") for language in (source, target))
    if len(ours) != len(theirs):
        got = f"{len(ours)} lines of {split}.{source} and {len(theirs)} of {split}.{target}"
        raise ValueError(explain("read_pairs", "the files", "of equally many lines", got, "get both again"))
    return [(one, other) for one, other in zip(ours, theirs, strict=True) if one and other]


def short_pairs(pairs: Iterable[tuple[str, str]], most: int) -> Pairs:
    """Keep the pairs of which neither side has more than so many words and marks.

    Args:
        pairs: Pairs of sentences.
        most: Largest number of words and marks.

    Returns:
        The short ones, in their order.

    Raises:
        ValueError: If ``most`` is below 1.

    Example:
        >>> short_pairs([("ein Hund .", "a dog ."), ("ein Hund rennt .", "a dog runs .")], most=3)
        [('ein Hund .', 'a dog .')]
    """
    check_count("short_pairs", "most", most)
    return [pair for pair in pairs if all(len(split_words(text)) <= most for text in pair)]


class PairDataset(Dataset):
    """Pairs as ids, read in batches that are padded to their longest sentence.

    Args:
        pairs: Pairs (source, target).
        source: Tokenizer of the first language.
        target: Tokenizer of the second.
        max_length: Longest sentence in tokens, ``<START>`` and ``<END>`` included; longer pairs are left out.
        sort: Whether to put the pairs in the order of their length: validation then needs little padding.

    Attributes:
        pairs: The pairs that were kept, in the order of the ids.
        left_out: Number of pairs that were too long.
        longest: Tokens of the longest sentence of all pairs, those left out included.
        bucket_lengths: (M,) target length plus source length of each pair: pairs of like length share batches.

    Raises:
        ValueError: If no pair is short enough.

    Example:
        >>> from cs_transformers.data.tokens import WordTokenizer
        >>> words = WordTokenizer.build(["a dog", "a"])
        >>> PairDataset([("a dog", "a"), ("a", "a dog")], words, words).batch(torch.tensor([0, 1]))[1]
        tensor([[1, 4, 2, 0],
                [1, 4, 5, 2]])
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]],
        source: Tokenizer,
        target: Tokenizer,
        *,
        max_length: int = 100,
        sort: bool = False,
    ) -> None:
        check_count("PairDataset", "max_length", max_length, minimum=2)
        encoded = [(pair, source.encode(pair[0]), target.encode(pair[1])) for pair in pairs]
        kept = [row for row in encoded if max(len(row[1]), len(row[2])) <= max_length]
        self.longest = max((max(len(row[1]), len(row[2])) for row in encoded), default=0)
        if not kept:
            got, fix = f"{len(encoded)} pairs, all longer", "raise max_length or pass more pairs"
            raise ValueError(explain("PairDataset", "pairs", f"some of at most {max_length} tokens", got, fix))
        if sort:
            kept.sort(key=lambda row: (len(row[2]), len(row[1])))
        self.pairs: Pairs = [row[0] for row in kept]
        self.rows = [(torch.tensor(row[1]), torch.tensor(row[2])) for row in kept]
        self.left_out = len(encoded) - len(kept)
        self.bucket_lengths = torch.tensor([len(one) + len(other) for one, other in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.rows[int(index)]

    def batch(self, indices: Tensor | Sequence[int]) -> tuple[Tensor, Tensor]:
        """Give some pairs, padded on the right.

        Args:
            indices: (N,) rows.

        Returns:
            Source (N, S) and target (N, T) ids.
        """
        return pad_pairs([self.rows[int(index)] for index in indices])

    def padding_share(self, batches: Iterable[Tensor]) -> float:
        """Measure how much of what is computed is padding.

        Args:
            batches: Rows of each batch.

        Returns:
            Share of padding among all ids of both sides, from 0 to 1.

        Raises:
            ValueError: If there is no batch.
        """
        padding = total = 0
        for indices in batches:
            for ids in self.batch(indices):
                padding, total = padding + int((ids == NULL_ID).sum()), total + ids.numel()
        if total == 0:
            fix = "pass what epoch_order gives"
            raise ValueError(explain("padding_share", "batches", "one or more", "none", fix))
        return padding / total


def pad_pairs(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Put pairs of different lengths into two tensors: what a DataLoader calls collate.

    Args:
        rows: Source and target ids of each pair.

    Returns:
        Source (N, S) and target (N, T) ids, ``<NULL>`` behind the shorter ones.
    """
    sides = zip(*rows, strict=True)
    source, target = (torch.nn.utils.rnn.pad_sequence(side, batch_first=True) for side in sides)
    return source, target


def _read_lines(folder: Path, name: str) -> list[str]:
    plain, packed = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else packed
    if not path.is_file():
        raise FileNotFoundError(f"read_pairs: expected {name} or {name}.gz in {folder.absolute()}. {REMEDY}")
    try:
        content = path.read_bytes() if path == plain else gzip.decompress(path.read_bytes())
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise DamagedFileError(
            f"read_pairs: expected UTF-8 text in {path.absolute()}, but it cannot be read ({problem}): delete it and "
            f"get it again. {REMEDY}"
        ) from problem
    # Only line feeds end a line: splitlines() would also cut at characters that occur inside sentences.
    return [line.strip() for line in text.removesuffix("\n").split("\n")]
