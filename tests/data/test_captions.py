from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from cs_transformers.data.captions import (
    CaptionDataset,
    LazyArray,
    captions_by_image,
    decode_captions,
    feature_file,
    load_coco_data,
    load_flickr8k,
    sample_coco_minibatch,
)
from cs_transformers.data.paths import DamagedFileError

WORDS = ["<NULL>", "<START>", "<END>", "<UNK>", "a", "dog", "runs", "강아지", "🐕"]
COUNTS = {"train": (31, 7), "val": (13, 4)}  # captions, pictures
FILES = [
    "coco2014_captions.h5",
    "coco2014_vocab.json",
    "train2014_vgg16_fc7_pca.h5",
    "val2014_vgg16_fc7_pca.h5",
    "train2014_urls.txt",
    "val2014_urls.txt",
]


def write_layout(folder: Path, chunks: bool | None = None) -> dict[str, np.ndarray]:
    """Write the files of Stanford's archive, by hand and small: names, keys and dtypes as published."""
    rng, arrays = np.random.RandomState(0), {}
    folder.mkdir(exist_ok=True)
    words = {"idx_to_word": WORDS, "word_to_idx": {word: index for index, word in enumerate(WORDS)}}
    (folder / "coco2014_vocab.json").write_text(json.dumps(words, ensure_ascii=False), encoding="utf-8")
    with h5py.File(folder / "coco2014_captions.h5", "w") as file:
        for split, (captions, pictures) in COUNTS.items():
            rows = np.zeros((captions, 17), dtype=np.int32)
            for row in rows:
                length = rng.randint(1, 15)
                row[: length + 2] = [1, *rng.randint(3, len(WORDS), length), 2]
            arrays[f"{split}_captions"] = rows
            arrays[f"{split}_image_idxs"] = rng.permutation(np.arange(captions) % pictures).astype(np.int32)
            for key in (f"{split}_captions", f"{split}_image_idxs"):
                file.create_dataset(key, data=arrays[key], chunks=chunks)
    for split, (_, pictures) in COUNTS.items():
        for name, shape in (("vgg16_fc7_pca", (6,)), ("vgg16_fc7", (40,)), ("grid", (9, 5))):
            values = rng.randn(pictures, *shape).astype(np.float32)
            arrays[f"{split}_{name}"] = values
            with h5py.File(folder / f"{split}2014_{name}.h5", "w") as file:
                file.create_dataset("features", data=values, chunks=chunks)
        lines = "".join(f"http://farm{split}.example/{index}.jpg\n" for index in range(pictures))
        (folder / f"{split}2014_urls.txt").write_text(lines, encoding="utf-8")
    return arrays


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_layout(tmp_path / "coco_captioning")
    return tmp_path / "coco_captioning"


# -- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy_above", [0, 2**24])
@pytest.mark.parametrize("chunks", [None, True])
def test_the_dict_has_stanfords_keys_shapes_dtypes_and_values(tmp_path: Path, chunks: bool, lazy_above: int) -> None:
    expected = write_layout(tmp_path, chunks)
    data = load_coco_data(tmp_path, lazy_above=lazy_above)
    parts = ("captions", "image_idxs", "features", "urls")
    assert set(data) == {f"{s}_{part}" for s in COUNTS for part in parts} | {"idx_to_word", "word_to_idx"}
    for split, (captions, pictures) in COUNTS.items():
        assert data[f"{split}_captions"].shape == (captions, 17)
        assert data[f"{split}_captions"].dtype == data[f"{split}_image_idxs"].dtype == np.int32
        assert data[f"{split}_features"].dtype == np.float32
        assert np.array_equal(data[f"{split}_features"], expected[f"{split}_vgg16_fc7_pca"])
        for part in ("captions", "image_idxs"):
            assert np.array_equal(data[f"{split}_{part}"], expected[f"{split}_{part}"])
            assert isinstance(data[f"{split}_{part}"], LazyArray if lazy_above == 0 else np.ndarray)
        assert data[f"{split}_urls"][2] == f"http://farm{split}.example/2.jpg"
        assert len(data[f"{split}_urls"]) == pictures
    assert data["idx_to_word"] == WORDS
    assert data["word_to_idx"]["강아지"] == 7


def test_the_three_kinds_of_features_come_from_their_files(tmp_path: Path) -> None:
    expected = write_layout(tmp_path)
    for options, name in (
        ({}, "vgg16_fc7_pca"),
        ({"pca_features": False}, "vgg16_fc7"),
        ({"features": "grid"}, "grid"),
    ):
        assert np.array_equal(load_coco_data(tmp_path, **options)["val_features"], expected[f"val_{name}"])
        split_file = feature_file("val", options.get("features", "global"), options.get("pca_features", True))
        assert split_file == f"val2014_{name}.h5"


def test_half_precision_features_are_read_as_single(folder: Path) -> None:
    with h5py.File(folder / "val2014_grid.h5", "w") as file:
        file["features"] = np.ones((4, 9, 5), dtype=np.float16)
    for lazy_above in (0, 2**24):
        features = load_coco_data(folder, features="grid", lazy_above=lazy_above)["val_features"]
        assert features.dtype == features[[1]].dtype == np.float32


def test_without_a_folder_the_data_and_cache_folders_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_layout(tmp_path / "coco_captioning")
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    assert len(load_coco_data()["train_captions"]) == COUNTS["train"][0]
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(
        FileNotFoundError, match=r"coco_captioning.*empty.*cst data get coco-captions.*cst data make scenes"
    ):
        load_coco_data()


@pytest.mark.parametrize("lazy_above", [0, 2**24])
def test_max_train_picks_captions_of_different_pictures_by_its_seed_alone(folder: Path, lazy_above: int) -> None:
    whole = load_coco_data(folder)
    state = np.random.get_state()[1].copy()
    data = load_coco_data(folder, max_train=7, seed=3, lazy_above=lazy_above)
    assert np.array_equal(np.random.get_state()[1], state)
    assert sorted(data["train_image_idxs"]) == list(range(7))
    assert isinstance(data["train_captions"], np.ndarray)
    for caption, row in zip(data["train_captions"], data["train_image_idxs"], strict=True):
        same = (whole["train_captions"] == caption).all(1) & (whole["train_image_idxs"] == row)
        assert same.any(), "captions and pictures stay together"
    assert len(data["train_features"]) == 7, "features stay whole"
    assert len(data["val_captions"]) == COUNTS["val"][0], "validation stays whole"
    again, other = (load_coco_data(folder, max_train=7, seed=seed)["train_captions"] for seed in (3, 4))
    assert np.array_equal(again, data["train_captions"])
    assert not np.array_equal(other, data["train_captions"])


def test_max_train_beyond_the_pictures_takes_further_captions_once_each(folder: Path) -> None:
    whole = load_coco_data(folder)["train_captions"]
    some = load_coco_data(folder, max_train=20)
    assert len(some["train_captions"]) == 20
    assert set(some["train_image_idxs"][:7]) == set(range(7))
    everything = load_coco_data(folder, max_train=1000)["train_captions"]
    assert sorted(map(tuple, everything)) == sorted(map(tuple, whole))


# -- missing and damaged files ---------------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_is_named_with_all_files_and_both_remedies(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_coco_data(tmp_path / "nope")
    text = str(caught.value)
    assert f"{tmp_path / 'nope'} (no such folder)" in text
    assert all(name in text for name in FILES)
    assert "cst data get coco-captions" in text
    assert "cst data make scenes" in text


def test_a_relative_folder_is_named_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "nope")):
        load_coco_data("nope")


@pytest.mark.parametrize("name", FILES)
def test_the_one_missing_file_is_named_alone(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_coco_data(folder)
    assert f"{folder} lacks {name}. Type `cst data get coco-captions`" in str(caught.value)


def test_missing_grid_features_are_to_be_computed(folder: Path) -> None:
    (folder / "train2014_grid.h5").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks train2014_grid\.h5\. .*cst data features"):
        load_coco_data(folder, features="grid")


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def nothing(_: bytes) -> bytes:
    return b""


def page(_: bytes) -> bytes:
    return b"<html>sign in to the hotel network</html>"


@pytest.mark.parametrize("damage", [half, nothing, page])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_found_on_opening_and_named(folder: Path, name: str, damage: Callable) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(content))
    with pytest.raises(DamagedFileError) as caught:
        load_coco_data(folder)
    text = str(caught.value)
    assert str(folder) in text
    assert name in text or name.endswith("urls.txt")
    assert "cst data get coco-captions" in text
    assert len(text) < 600
    if name.endswith(".h5") and damage is half:
        assert f"is incomplete (size {len(content) // 2}, expected {len(content)}): delete it and get it again" in text


def test_files_that_contradict_each_other_are_found_on_opening(folder: Path) -> None:
    with h5py.File(folder / "train2014_vgg16_fc7_pca.h5", "w") as file:
        file["features"] = np.zeros((6, 6), dtype=np.float32)
    with pytest.raises(DamagedFileError, match=r"files of train .*\(6 rows of features for 7 urls\)"):
        load_coco_data(folder)
    write_layout(folder)
    with h5py.File(folder / "coco2014_captions.h5", "r+") as file:
        file["val_image_idxs"][3] = 4
    with pytest.raises(DamagedFileError, match=r"files of val .*\(image_idxs from 0 to 4 for 4 pictures\)"):
        load_coco_data(folder)
    write_layout(folder)
    with h5py.File(folder / "coco2014_captions.h5", "r+") as file:
        del file["val_image_idxs"]
        file["val_image_idxs"] = np.zeros(5, dtype=np.int32)
    with pytest.raises(DamagedFileError, match=r"captions of shape \(13, 17\) for image_idxs of shape \(5,\)"):
        load_coco_data(folder)


def test_wrong_arguments_are_refused_before_a_file_is_opened() -> None:
    with pytest.raises(ValueError, match=r"load_coco_data: features must be one of 'global', 'grid', got 'spatial'"):
        load_coco_data("/nope", features="spatial")
    with pytest.raises(ValueError, match=r"load_flickr8k: features must be one of"):
        load_flickr8k("/nope", features="spatial")
    with pytest.raises(ValueError, match=r"feature_file: features must be one of"):
        feature_file("train", "spatial")


@pytest.mark.parametrize("count", [0, -3, 2.5])
def test_max_train_must_be_a_positive_whole_number(folder: Path, count: float) -> None:
    with pytest.raises((ValueError, TypeError), match="load_coco_data: max_train must be a positive whole number"):
        load_coco_data(folder, max_train=count)


# -- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy_above", [0, 2**24])
def test_a_minibatch_holds_captions_with_their_own_features_and_urls(folder: Path, lazy_above: int) -> None:
    data = load_coco_data(folder, lazy_above=lazy_above)
    for split in ("train", "val"):
        whole, rows = np.asarray(data[f"{split}_captions"]), np.asarray(data[f"{split}_image_idxs"])
        features = np.asarray(data[f"{split}_features"])
        captions, got, urls = sample_coco_minibatch(data, 50, split, rng=np.random.RandomState(0))
        assert captions.shape == (50, 17)
        assert got.shape == (50, 6)
        for caption, feature, url in zip(captions, got, urls, strict=True):
            possible = rows[(whole == caption).all(1)]
            row = next(row for row in possible if np.array_equal(features[row], feature))
            assert url == data[f"{split}_urls"][row]
    assert len(sample_coco_minibatch(data)[0]) == 100


def test_a_generator_makes_a_minibatch_repeatable_and_none_leaves_numpys_alone(folder: Path) -> None:
    data = load_coco_data(folder)
    for make in (np.random.RandomState, np.random.default_rng):
        one, same = (sample_coco_minibatch(data, 30, rng=make(5))[0] for _ in range(2))
        assert np.array_equal(one, same)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    drawn = [sample_coco_minibatch(data, 30)[0] for _ in range(2)]
    assert not np.array_equal(*drawn)
    assert np.array_equal(np.random.get_state()[1], before)


def test_a_minibatch_of_another_split_or_without_features_is_refused(folder: Path) -> None:
    data = load_coco_data(folder)
    with pytest.raises(ValueError, match=r"sample_coco_minibatch: split must be one of 'train', 'val', got 'test'"):
        sample_coco_minibatch(data, 3, "test")
    with pytest.raises(ValueError, match="batch_size must be a positive whole number, got 0"):
        sample_coco_minibatch(data, 0)
    del data["train_features"]
    with pytest.raises(
        ValueError, match="data must be a data set with features, got none for train; compute them with"
    ):
        sample_coco_minibatch(data, 3)
    with pytest.raises(ValueError, match="CaptionDataset: data must be a data set with features"):
        CaptionDataset(data)
    with pytest.raises(ValueError, match="captions_by_image: split must be one of"):
        captions_by_image(data, "test")


def test_an_example_is_the_features_and_the_caption_of_one_row(folder: Path) -> None:
    data = load_coco_data(folder, lazy_above=0, features="grid")
    examples = CaptionDataset(data, "val")
    assert len(examples) == COUNTS["val"][0]
    for index in (0, 12, -1):
        features, caption = examples[index]
        assert (features.dtype, caption.dtype) == (torch.float32, torch.int64)
        assert features.shape == (9, 5)
        row = data["val_image_idxs"][index]
        assert np.array_equal(features.numpy(), data["val_features"][row])
        assert np.array_equal(caption.numpy(), data["val_captions"][index])


def batches(examples: CaptionDataset, **options: object) -> list[list[torch.Tensor]]:
    return list(DataLoader(examples, batch_size=5, **options))


@pytest.mark.parametrize("chunks", [None, True])
@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on a machine with one core
def test_workers_read_what_one_process_reads(tmp_path: Path, context: str, chunks: bool) -> None:
    write_layout(tmp_path, chunks)
    data = load_coco_data(tmp_path, lazy_above=0)
    data["train_captions"][3]  # an access in the parent before the workers start
    examples = CaptionDataset(data)
    examples[0]
    alone = batches(examples)
    shared = batches(examples, num_workers=2, multiprocessing_context=context)
    assert len(alone) == len(shared) == 7
    for one, other in zip(alone, shared, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_pickled_data_set_reads_the_same_and_holds_no_features(folder: Path) -> None:
    examples = CaptionDataset(load_coco_data(folder, lazy_above=0))
    examples[2]
    text = pickle.dumps(examples)
    assert len(text) < 3000
    for one, other in zip(batches(examples), batches(pickle.loads(text)), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# -- text ------------------------------------------------------------------------------------------------------------


def test_decoding_drops_null_keeps_start_and_stops_after_end() -> None:
    row = np.array([1, 4, 0, 5, 6, 2, 5, 5])
    assert decode_captions(row, WORDS) == "<START> a dog runs <END>"
    assert decode_captions(torch.tensor(row), dict(enumerate(WORDS))) == "<START> a dog runs <END>"
    assert decode_captions(np.array([[1, 7, 8, 2], [0, 0, 0, 0]]), WORDS) == ["<START> 강아지 🐕 <END>", ""]
    assert decode_captions([4, 5], WORDS) == "a dog"
    assert decode_captions(np.zeros((0, 4), int), WORDS) == []


@pytest.mark.parametrize("index", [9, -1])
@pytest.mark.parametrize("words", [WORDS, dict(enumerate(WORDS))])
def test_an_id_without_a_word_is_refused(index: int, words: object) -> None:
    with pytest.raises(
        ValueError, match=rf"decode_captions: captions must be ids of the 9 words of idx_to_word, got {index}"
    ):
        decode_captions([1, index], words)


def test_captions_of_another_rank_are_refused() -> None:
    with pytest.raises(ValueError, match=r"captions must be of shape \(T,\) or \(N, T\), got \(1, 2, 3\)"):
        decode_captions(np.zeros((1, 2, 3), int), WORDS)
    with pytest.raises(TypeError, match="captions must be whole numbers, got float64; pass ids, not scores"):
        decode_captions(np.array([4.2, 5.0]), WORDS)
    assert decode_captions([], WORDS) == ""


def test_references_collect_the_captions_of_each_picture(folder: Path) -> None:
    data = load_coco_data(folder)
    references = captions_by_image(data, "val")
    assert len(references) == COUNTS["val"][1]
    assert sum(map(len, references)) == COUNTS["val"][0]
    for caption, row in zip(data["val_captions"], data["val_image_idxs"], strict=True):
        words = [WORDS[index] for index in caption if index > 2]
        assert " ".join(words) in references[row]


def test_the_layout_reads_alike_in_a_process_whose_locale_is_ascii(folder: Path) -> None:
    code = (
        "import locale; assert 'utf' not in locale.getpreferredencoding(False).lower();"
        "from cs_transformers.data.captions import load_coco_data, captions_by_image;"
        f"print(ascii(captions_by_image(load_coco_data({str(folder)!r}))))"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | ascii_only
    )
    assert answer.stdout.strip() == ascii(captions_by_image(load_coco_data(folder)))


# -- size ------------------------------------------------------------------------------------------------------------

LARGE = {"train": (400_135, 82_783), "val": (195_954, 40_504)}  # as published


def large_dataset(file: h5py.File, key: str, shape: tuple[int, ...], dtype: type) -> None:
    """Reserve an array of full size without writing it: its pages read as zeros, as many as a real file has."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(file.id, key.encode(), h5py.h5t.py_create(np.dtype(dtype)), space, settings)


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    words = ["<NULL>", "<START>", "<END>", "<UNK>", *(f"word{index}" for index in range(1000))]
    vocabulary = {"idx_to_word": words, "word_to_idx": {word: index for index, word in enumerate(words)}}
    (folder / "coco2014_vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    rng = np.random.RandomState(0)
    with h5py.File(folder / "coco2014_captions.h5", "w") as file:
        for split, (captions, pictures) in LARGE.items():
            file[f"{split}_captions"] = rng.randint(0, 1004, (captions, 17)).astype(np.int32)
            file[f"{split}_image_idxs"] = (np.arange(captions) % pictures).astype(np.int32)
    for split, (_, pictures) in LARGE.items():
        for name, width in (("vgg16_fc7_pca", 512), ("vgg16_fc7", 4096)):
            with h5py.File(folder / f"{split}2014_{name}.h5", "w") as file:
                large_dataset(file, "features", (pictures, width), np.float32)
        lines = (
            f"http://farm9.staticflickr.com/8186/8119368305_4e622c8349_{index:06d}.jpg\n" for index in range(pictures)
        )
        (folder / f"{split}2014_urls.txt").write_text("".join(lines), encoding="utf-8")
    return folder


MEASURE = """
import sys
from pathlib import Path
import numpy as np, torch
from cs_transformers.data.captions import CaptionDataset, load_coco_data, sample_coco_minibatch

def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
baseline = memory("VmRSS")
data = load_coco_data(sys.argv[1], pca_features=sys.argv[2] == "pca")
rng = np.random.RandomState(0)
for _ in range(20):
    captions, features, urls = sample_coco_minibatch(data, 100, rng=rng)
assert captions.shape == (100, 17) and len(data["train_captions"]) == 400_135
examples = CaptionDataset(data)
batch = examples.__getitems__(list(range(0, 400_000, 9_999)))
assert len(batch) == 41
if sys.argv[3] == "read":
    features = np.asarray(data["train_features"])
print(memory("VmHWM") - baseline)
"""


def megabytes(folder: Path, kind: str, then: str = "") -> float:
    command = [sys.executable, "-c", MEASURE, str(folder), kind, then]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_opening_400_000_captions_and_drawing_from_them_takes_little_memory(large_folder: Path) -> None:
    assert megabytes(large_folder, "pca") < 120
    assert megabytes(large_folder, "full") < 120
    assert megabytes(large_folder, "pca", "read") > 200, "the measure would see an array that is read whole"


# -- Flickr8k --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "shape"), [({}, (512,)), ({"pca_features": False}, (1280,)), ({"features": "grid"}, (36, 128))]
)
def test_flickr8k_opens_as_the_same_dict(data_dir: Path, options: dict, shape: tuple[int, ...]) -> None:
    data = load_flickr8k(data_dir / "flickr8k_1000", **options)
    assert {split: len(data[f"{split}_captions"]) for split in ("train", "val", "test")} == {
        "train": 4000,
        "val": 500,
        "test": 500,
    }
    assert data["train_features"].shape == (800, *shape)
    assert data["train_features"].dtype == np.float32
    assert data["train_captions"].shape[1] == 20
    assert len(data["idx_to_word"]) == 1198
    captions, features, urls = sample_coco_minibatch(data, 4, "test", rng=np.random.RandomState(0))
    assert features.shape == (4, *shape)
    assert all(Path(url).is_file() for url in urls)
    assert all(text.startswith("<START> ") for text in decode_captions(captions, data["idx_to_word"]))


def test_flickr8k_is_found_by_the_variable_and_its_captions_match_the_official_json(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CST_DATA_DIR", str(data_dir))
    data = load_flickr8k(max_train=50)
    assert len(set(data["train_image_idxs"])) == 50
    official = json.loads((data_dir / "flickr8k_1000" / "captions.json").read_text(encoding="utf-8"))
    numbers = {image["file_name"]: image["id"] for image in official["images"]}
    references = captions_by_image(data, "test")
    for url, texts in zip(data["test_urls"], references, strict=True):
        written = [a["caption"].lower() for a in official["annotations"] if a["image_id"] == numbers[Path(url).name]]
        assert len(texts) == 5
        for text in texts:  # every known word of a row stands in one of the five sentences
            known = {word for word in text.split() if word != "<UNK>"}
            assert any(all(word in sentence for word in known) for sentence in written)


def test_a_missing_flickr8k_names_folder_files_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_flickr8k(tmp_path)
    assert f"{tmp_path / 'h5'} (no such folder) lacks captions.h5, features.h5, vocab.json" in str(caught.value)
    assert "CST_DATA_DIR" in str(caught.value)
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"load_flickr8k: expected flickr8k_1000; looked in .*cst data make scenes"
    ):
        load_flickr8k()
