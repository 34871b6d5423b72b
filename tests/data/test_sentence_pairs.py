"""Sentence pairs: files that belong together, batches of like length, padding that is counted."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.sentence_pairs import (
    MULTI30K_SPLITS,
    PairDataset,
    load_multi30k,
    pad_pairs,
    read_pairs,
    short_pairs,
)
from cs_transformers.data.tokens import NULL_ID, WordTokenizer
from cs_transformers.training.batches import epoch_order
from cs_transformers.training.config import FitConfig

PAIRS = [(" ".join(["wort"] * length), " ".join(["word"] * (length % 5 + 1))) for length in range(1, 13)]
WORDS = WordTokenizer.build([text for pair in PAIRS for text in pair])


def write(folder: Path, name: str, text: str | bytes) -> None:
    content = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def test_plain_and_packed_files_are_read_alike(tmp_path: Path) -> None:
    write(tmp_path, "train.de.gz", "Ein Hund.\n\nEin Kind.\r\nLäuft\u2028weiter.\n")
    write(tmp_path, "train.en", "\ufeffA dog.\nNothing.\nA child.\nRuns on.\n")
    expected = [("Ein Hund.", "A dog."), ("Ein Kind.", "A child."), ("Läuft\u2028weiter.", "Runs on.")]
    assert read_pairs(tmp_path, "train", source="de", target="en") == expected
    assert read_pairs(tmp_path, "train", source="en", target="de") == [(b, a) for a, b in expected]


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "val.de", "eins\nzwei\n")
    write(tmp_path, "val.en", "one\n")
    with pytest.raises(ValueError, match=r"of equally many lines, got 2 lines of val.de and 1 of val.en"):
        read_pairs(tmp_path, "val", source="de", target="en")


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.de.gz", None), ("x.de", b"\xff\xfe\x00"), ("x.de.gz", gzip.compress(b"text" * 99, mtime=0)[:20])],
    ids=["no archive", "no text", "cut off"],  # the same names in every process
)
def test_a_damaged_file_is_named_with_its_remedy(tmp_path: Path, name: str, content: bytes | None) -> None:
    (tmp_path / name).write_bytes(content or b"<html>not found</html>")
    write(tmp_path, "x.en", "one\n")
    with pytest.raises(DamagedFileError, match=rf"{name}.*cst data get multi30k"):
        read_pairs(tmp_path, "x", source="de", target="en")


def test_missing_files_and_data_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected train.de or train.de.gz in"):
        read_pairs(tmp_path, "train", source="de", target="en")
    monkeypatch.setenv("CST_DATA_DIR", "")
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"load_multi30k: expected multi30k.*cst data get multi30k"):
        load_multi30k()
    with pytest.raises(ValueError, match=r"split must be one of 'train', 'val', 'test_2016_flickr', got 'test'"):
        load_multi30k("test")
    with pytest.raises(ValueError, match=r"source must be one of 'de', 'en', got 'fr'"):
        load_multi30k(source="fr")


@pytest.mark.usefixtures("data_dir")
def test_multi30k_has_the_published_numbers_of_pairs() -> None:
    assert [len(load_multi30k(split)) for split in MULTI30K_SPLITS] == [29_000, 1_014, 1_000]
    first = load_multi30k()[0]
    assert first[0] == "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche."
    assert first[1] == "Two young, White males are outside near many bushes."
    assert len(short_pairs(load_multi30k("test_2016_flickr"), 10)) == 255
    assert len(short_pairs(load_multi30k(), 10)) == 6_818


def test_a_batch_is_padded_to_its_longest_sentence() -> None:
    data = PairDataset(PAIRS, WORDS, WORDS)
    src, tgt = data.batch(torch.tensor([2, 0]))
    assert src.tolist() == [[1, 4, 4, 4, 2], [1, 4, 2, 0, 0]]
    assert tgt.tolist() == [[1, 5, 5, 5, 5, 2], [1, 5, 5, 2, 0, 0]]
    assert src.dtype == tgt.dtype == torch.int64


def test_too_long_pairs_are_left_out_and_counted() -> None:
    data = PairDataset(PAIRS, WORDS, WORDS, max_length=8)
    assert (len(data), data.left_out, data.longest) == (6, 6, 14)
    assert data.pairs == PAIRS[:6]
    with pytest.raises(ValueError, match=r"some of at most 2 tokens, got 12 pairs, all longer"):
        PairDataset(PAIRS, WORDS, WORDS, max_length=2)


def test_sorted_data_keeps_pairs_and_ids_together() -> None:
    data = PairDataset(PAIRS, WORDS, WORDS, sort=True)
    lengths = [len(data[row][1]) for row in range(len(data))]
    assert lengths == sorted(lengths)
    for (source, _), row in zip(data.pairs, range(len(data)), strict=True):
        assert data[row][0].tolist() == WORDS.encode(source)


def test_batches_of_like_length_hold_everything_once_and_need_less_padding() -> None:
    lengths = torch.randint(1, 30, (500,), generator=torch.Generator().manual_seed(0)).tolist()
    data = PairDataset([("wort " * length, "word " * length) for length in lengths], WORDS, WORDS)
    config = FitConfig(batch_size=16)
    plain = epoch_order(len(data), config, 0)
    bucketed = epoch_order(len(data), config, 0, data.bucket_lengths)
    assert [len(batch) for batch in bucketed].count(16) == 31
    assert len(bucketed) == len(plain) == config.steps_per_epoch(500)
    assert sorted(torch.cat(bucketed).tolist()) == list(range(500))
    assert data.padding_share(plain) > 0.3
    assert data.padding_share(bucketed) < 0.1
    again, later = (epoch_order(len(data), config, epoch, data.bucket_lengths) for epoch in (0, 1))
    assert all(torch.equal(one, other) for one, other in zip(bucketed, again, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(bucketed, later, strict=True))
    assert torch.cat(bucketed).tolist() != sorted(torch.cat(bucketed).tolist(), key=lambda row: lengths[row])


def test_padding_is_counted() -> None:
    data = PairDataset(PAIRS, WORDS, WORDS)
    src, tgt = data.batch([0, 2])
    share = (int((src == NULL_ID).sum()) + int((tgt == NULL_ID).sum())) / (src.numel() + tgt.numel())
    assert data.padding_share([torch.tensor([0, 2])]) == share > 0
    assert data.padding_share([torch.tensor([3])]) == 0
    with pytest.raises(ValueError, match=r"padding_share: batches must be one or more, got none"):
        data.padding_share([])


def test_a_loader_reads_the_same_batches() -> None:
    data = PairDataset(PAIRS, WORDS, WORDS)
    loader = DataLoader(pickle.loads(pickle.dumps(data)), batch_size=4, collate_fn=pad_pairs)
    for number, (src, tgt) in enumerate(loader):
        expected = data.batch(range(4 * number, 4 * number + 4))
        assert torch.equal(src, expected[0])
        assert torch.equal(tgt, expected[1])
