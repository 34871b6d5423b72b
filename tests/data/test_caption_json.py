from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from cs_transformers.data.caption_files import write_array, write_caption_files
from cs_transformers.data.caption_json import (
    CaptionedPhoto,
    caption_data,
    load_coco_json,
    load_flickr8k_photos,
    read_coco_json,
)
from cs_transformers.data.captions import captions_by_image, decode_captions, load_coco_data
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.vocabulary import Vocabulary


def official(names: dict[int, str], captions: list[tuple[int, str]], **fields: object) -> dict:
    images = [
        {"id": number, "file_name": name, "coco_url": f"http://images.example/{name}"} | fields
        for number, name in names.items()
    ]
    notes = [{"id": 900 + k, "image_id": number, "caption": text} for k, (number, text) in enumerate(captions)]
    return {"info": {}, "licenses": [], "images": images, "annotations": notes}


TRAIN = official(
    {42: "000000000042.jpg", 7: "000000000007.jpg", 9: "000000000009.jpg"},
    [
        (7, "A dog runs."),
        (42, "강아지 a dog 🐕"),
        (7, "A dog and a dog ."),
        (42, "A cat, sleeping on a very long red sofa"),
    ],
)
VAL = official({5: "000000000005.jpg"}, [(5, "A dog sleeps"), (5, "One dog")])


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    folder = tmp_path / "coco"
    (folder / "annotations").mkdir(parents=True)
    (folder / "train2017").mkdir()
    Image.new("RGB", (6, 4), "red").save(folder / "train2017" / "000000000042.jpg")
    for split, content in (("train", TRAIN), ("val", VAL)):
        text = json.dumps(content, ensure_ascii=False)
        (folder / "annotations" / f"captions_{split}2017.json").write_text(text, encoding="utf-8")
    return folder


def test_photos_come_in_the_order_of_the_file_with_their_captions(coco: Path) -> None:
    photos = read_coco_json(coco / "annotations" / "captions_train2017.json", coco / "train2017")
    assert [photo.number for photo in photos] == [42, 7], "a photo without captions is left out"
    assert photos[1].captions == ("A dog runs.", "A dog and a dog .")
    assert photos[0].url == str(coco / "train2017" / "000000000042.jpg"), "a photo that is there is its own address"
    assert photos[1].url == "http://images.example/000000000007.jpg"


def test_a_gzipped_file_reads_the_same(coco: Path) -> None:
    plain = coco / "annotations" / "captions_train2017.json"
    (coco / "captions.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert read_coco_json(coco / "captions.json.gz") == read_coco_json(plain)


def test_the_dict_is_that_of_the_other_loaders_without_features(coco: Path) -> None:
    data = load_coco_json(coco, min_count=1, max_words=6)
    assert data["train_captions"].shape == (4, 8)
    assert data["train_captions"].dtype == data["train_image_idxs"].dtype == np.int32
    assert data["train_image_idxs"].tolist() == [0, 0, 1, 1]
    assert data["train_image_ids"].tolist() == [42, 7]
    assert data["val_file_names"].tolist() == ["000000000005.jpg"]
    assert decode_captions(data["train_captions"], data["idx_to_word"]) == [
        "<START> 강아지 a dog 🐕 <END>",
        "<START> a cat sleeping on a very <END>",
        "<START> a dog runs <END>",
        "<START> a dog and a dog <END>",
    ]
    assert captions_by_image(data, "val") == [["a dog <UNK>", "<UNK> dog"]], "only training captions give words"
    assert "train_features" not in data


def test_rare_words_become_unknown_and_a_given_vocabulary_is_used(coco: Path) -> None:
    assert load_coco_json(coco, min_count=2)["idx_to_word"][4:] == ["a", "dog"]
    words = Vocabulary.build(["sleeps one"])
    data = load_coco_json(coco, vocabulary=words)
    assert data["idx_to_word"] == words.idx_to_word
    assert captions_by_image(data, "val") == [["<UNK> <UNK> sleeps", "one <UNK>"]]


def test_written_in_the_layout_of_cs231n_it_opens_like_every_other_set(coco: Path, tmp_path: Path) -> None:
    data = load_coco_json(coco, min_count=1)
    write_caption_files(tmp_path / "layout", data)
    for split, rows in (("train", 2), ("val", 1)):
        for name in ("vgg16_fc7_pca", "vgg16_fc7"):
            write_array(
                tmp_path / "layout" / f"{split}2014_{name}.h5", "features", [np.ones((rows, 3), np.float32)], rows
            )
    opened = load_coco_data(tmp_path / "layout")
    for split in ("train", "val"):
        for part in ("captions", "image_idxs", "urls"):
            assert np.array_equal(opened[f"{split}_{part}"], data[f"{split}_{part}"])
            assert opened[f"{split}_{part}"].dtype == data[f"{split}_{part}"].dtype
    assert opened["word_to_idx"] == data["word_to_idx"]
    names = (tmp_path / "layout" / "train2014_images.txt").read_bytes()
    assert names == b"000000000042.jpg\n000000000007.jpg\n"


def test_it_reads_alike_in_a_process_whose_locale_is_ascii(coco: Path) -> None:
    code = (
        "import locale; assert 'utf' not in locale.getpreferredencoding(False).lower();"
        "from cs_transformers.data.caption_json import load_coco_json;"
        f"print(ascii(load_coco_json({str(coco)!r}, min_count=1)['idx_to_word']))"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | ascii_only
    )
    assert answer.stdout.strip() == ascii(load_coco_json(coco, min_count=1)["idx_to_word"])


def test_missing_files_are_named_with_their_folder_and_the_command(coco: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (coco / "annotations" / "captions_val2017.json").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_coco_json(coco)
    assert f"{coco} lacks {Path('annotations', 'captions_val2017.json')}. " in str(caught.value)
    assert "cst data get coco-annotations-2017" in str(caught.value)
    with pytest.raises(
        FileNotFoundError, match=r"nope \(no such folder\) lacks .*captions_train2014.*coco-annotations-2014"
    ):
        load_coco_json(coco / "nope", year=2014)
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    monkeypatch.setenv("CST_CACHE_DIR", str(coco))
    with pytest.raises(FileNotFoundError, match="load_coco_json: expected coco2017; looked in"):
        load_coco_json()
    with pytest.raises(
        FileNotFoundError, match=r"read_coco_json: expected the file .*none.json, there is none\. Do this\."
    ):
        read_coco_json(coco / "none.json", remedy="Do this.")


@pytest.mark.parametrize(
    "content",
    [b"", b'{"images": [', b"[]", b'{"images": []}', b'{"annotations": [{"image_id": 3}], "images": []}', b"\xff\xfe"],
)
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_damaged_file_is_named_with_its_size_and_the_command(coco: Path, content: bytes, suffix: str) -> None:
    path = coco / f"captions.{suffix}"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError) as caught:
        read_coco_json(path, remedy="Type `cst data get x`.")
    assert f"{path} is incomplete or no COCO caption file (size {len(content)}" in str(caught.value)
    assert str(caught.value).endswith("Type `cst data get x`.")


def test_a_gzipped_file_cut_in_half_is_damage(coco: Path) -> None:
    content = gzip.compress((coco / "annotations" / "captions_train2017.json").read_bytes())
    (coco / "captions.json.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFileError, match=f"size {len(content) // 2}"):
        read_coco_json(coco / "captions.json.gz")


def test_splits_without_train_need_a_vocabulary() -> None:
    photos = [CaptionedPhoto("a.jpg", "a.jpg", 1, ("a dog",))]
    with pytest.raises(
        ValueError, match=r"caption_data: splits must be with train, .*got \['val'\]; pass the photos of train"
    ):
        caption_data({"val": photos})
    with pytest.raises(ValueError, match="caption_data: max_words must be a positive whole number, got 0"):
        caption_data({"train": photos}, max_words=0)
    assert caption_data({"val": photos, "train": []}, vocabulary=Vocabulary.build(["a"]))["train_captions"].shape == (
        0,
        17,
    )


def test_a_layout_without_one_of_its_splits_is_not_written(tmp_path: Path) -> None:
    data = caption_data({"train": [CaptionedPhoto("a.jpg", "a.jpg", 1, ("a dog",))]})
    with pytest.raises(ValueError, match="write_caption_files: data must be a data set with train and val"):
        write_caption_files(tmp_path / "layout", data)
    assert not (tmp_path / "layout").exists()


@pytest.mark.parametrize(("blocks", "got"), [([2, 1], "3"), ([2, 3], "5 or more"), ([], "0")])
def test_an_array_of_another_length_than_promised_is_not_written(tmp_path: Path, blocks: list[int], got: str) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(
        ValueError, match=rf"write_array: blocks must be 4 rows together, got {got}; pass the right rows"
    ):
        write_array(path, "features", [np.ones((rows, 2)) for rows in blocks], 4)
    assert list(tmp_path.iterdir()) == []
    write_array(path, "features", [np.full((rows, 2), rows, np.float16) for rows in (3, 1)], 4)
    with h5py.File(path) as file:
        assert file["features"][:, 0].tolist() == [3, 3, 3, 1]
        assert file["features"].dtype == np.float16


# -- Flickr8k's own files --------------------------------------------------------------------------------------------


@pytest.fixture
def flickr(tmp_path: Path) -> Path:
    folder = tmp_path / "flickr8k"
    (folder / "Flicker8k_Dataset").mkdir(parents=True)
    Image.new("RGB", (6, 4), "red").save(folder / "Flicker8k_Dataset" / "a.jpg")
    lines = ["a.jpg#0\tA dog runs .", "a.jpg#1\tA brown dog .", "b.jpg#0\tA girl in a café .", "c.jpg#0\tTwo dogs ."]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines), encoding="utf-8")
    for name, photo in (("train", "a.jpg"), ("dev", "b.jpg"), ("test", "c.jpg")):
        (folder / f"Flickr_8k.{name}Images.txt").write_text(f"{photo}\n", encoding="utf-8")
    return folder


def test_the_official_text_files_of_flickr8k_give_the_same_dict(flickr: Path) -> None:
    data = load_flickr8k_photos(flickr, min_count=1)
    assert data["idx_to_word"][4:] == ["a", "dog", "brown", "runs"]
    assert captions_by_image(data, "train") == [["a dog runs", "a brown dog"]]
    assert captions_by_image(data, "val") == [["a <UNK> <UNK> a <UNK>"]]
    assert data["train_urls"].tolist() == [str(flickr / "Flicker8k_Dataset" / "a.jpg")]
    assert data["test_urls"].tolist() == ["c.jpg"]


def test_a_missing_or_shortened_file_of_flickr8k_is_named(flickr: Path, tmp_path: Path) -> None:
    (flickr / "Flickr8k.token.txt").write_text("a.jpg#0\tA dog .\n", encoding="utf-8")
    with pytest.raises(
        DamagedFileError, match=r"Flickr8k\.token\.txt has no captions for 1 photos of .*, the first is b\.jpg"
    ):
        load_flickr8k_photos(flickr)
    (flickr / "Flickr_8k.devImages.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"flickr8k lacks Flickr_8k\.devImages\.txt\. Type `cst data get flickr8k`"
    ):
        load_flickr8k_photos(flickr)
    with pytest.raises(FileNotFoundError, match=r"nope \(no such folder\) lacks Flickr8k\.token\.txt"):
        load_flickr8k_photos(tmp_path / "nope")


# -- real files ------------------------------------------------------------------------------------------------------


def test_real_coco_files_and_photos_open(data_dir: Path) -> None:
    data = load_coco_json(data_dir / "coco_mini", min_count=1)
    counts = {split: (len(data[f"{split}_urls"]), len(data[f"{split}_captions"])) for split in ("train", "val")}
    raw = {
        split: json.loads((data_dir / "coco_mini" / "annotations" / f"captions_{split}2017.json").read_text("utf-8"))
        for split in ("train", "val")
    }
    assert counts == {split: (len(raw[split]["images"]), len(raw[split]["annotations"])) for split in raw}
    assert all(Path(url).is_file() for split in raw for url in data[f"{split}_urls"])
    known = data["train_captions"] == data["word_to_idx"]["<UNK>"]
    assert not known.any()


def test_the_official_validation_captions_of_coco_open_whole(data_dir: Path) -> None:
    photos = read_coco_json(data_dir / "coco_captions_val2017" / "captions_val2017.json.gz")
    assert (len(photos), sum(len(photo.captions) for photo in photos)) == (5000, 25014)  # as published


def test_the_prepared_thousand_of_flickr8k_opens_from_its_json(data_dir: Path) -> None:
    data = load_flickr8k_photos(data_dir / "flickr8k_1000")
    assert [len(data[f"{split}_urls"]) for split in ("train", "val", "test")] == [800, 100, 100]
    assert data["train_captions"].shape == (4000, 20)
    with h5py.File(
        data_dir / "flickr8k_1000" / "h5" / "captions.h5"
    ) as file:  # made by others, tokenised a bit differently
        same_length = (np.asarray(file["train_captions"]) == 2).argmax(1) == (data["train_captions"] == 2).argmax(1)
        assert np.array_equal(np.sort(file["train_image_idxs"]), np.sort(data["train_image_idxs"]))
    assert same_length.mean() > 0.9
