from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from cs_transformers.data import scene_files
from cs_transformers.data.captions import decode_captions, load_coco_data, sample_coco_minibatch
from cs_transformers.data.scene_files import (
    CAPTION_LENGTH,
    ensure_scenes,
    scene_features,
    scene_vocabulary,
    scenes_of,
    write_scenes,
)
from cs_transformers.data.scene_language import caption_is_true, describe
from cs_transformers.data.scenes import make_scenes, render
from cs_transformers.data.web_image import image_from_url

# What other machines gave for make_scenes(20, 231). A change means other files from the same seed: raise _FORMAT.
FEATURES = {
    "full": "6568bb957f314b7bd00bc73f2b973fd427842632eb44208365472b8140b5d4a4",
    "pca": "5fb01ef13eea249759e8b00c067d6e2f859776eae64233f58672cb906817ef66",
    "grid": "fadca81e042043ee2516c6d78cd5e0b7a588d2c56ed950ca7fecc8c0197cb871",
}
NAMES = {
    "coco2014_captions.h5",
    "coco2014_vocab.json",
    "scenes.json",
    *(f"{s}2014_{n}" for s in ("train", "val") for n in ("urls.txt", "images.txt", "images.h5", "grid.h5")),
    *(f"{s}2014_vgg16_fc7{n}.h5" for s in ("train", "val") for n in ("", "_pca")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("data") / "scenes", train=300, val=40, seed=5)


def test_the_folder_holds_the_files_of_cs231n_and_the_pictures(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == NAMES
    with h5py.File(folder / "train2014_images.h5") as file:
        assert file["images"].shape == (300, 64, 64, 3)
        assert file["images"].dtype == np.uint8
    with h5py.File(folder / "coco2014_captions.h5") as file:
        assert file["train_captions"].dtype == file["val_image_idxs"].dtype == np.int32


def test_stanfords_loader_opens_it_and_every_caption_is_true_of_its_picture(folder: Path) -> None:
    data = load_coco_data(folder)
    for split, count in (("train", 300), ("val", 40)):
        assert data[f"{split}_captions"].shape == (5 * count, CAPTION_LENGTH)
        assert data[f"{split}_features"].shape == (count, 512)
        scenes = scenes_of(data[f"{split}_urls"])
        texts = decode_captions(data[f"{split}_captions"], data["idx_to_word"])
        assert all(
            caption_is_true(text, scenes[row]) for text, row in zip(texts, data[f"{split}_image_idxs"], strict=True)
        )
        with h5py.File(folder / f"{split}2014_images.h5") as file:
            for row in (0, count - 1):
                assert np.array_equal(file["images"][row], image_from_url(data[f"{split}_urls"][row]))
    assert not set(data["train_urls"]) & set(data["val_urls"])


def test_all_three_kinds_of_features_open_and_match_their_pictures(folder: Path) -> None:
    images = np.stack([render(scene) for scene in make_scenes(300, 5)])
    expected = scene_features(images)
    for options, kind in (({}, "pca"), ({"pca_features": False}, "full"), ({"features": "grid"}, "grid")):
        data = load_coco_data(folder, **options)
        assert np.array_equal(data["train_features"], expected[kind].astype(np.float32))
        assert sample_coco_minibatch(data, 3)[1].dtype == np.float32


def test_features_are_those_of_every_other_machine() -> None:
    features = scene_features(np.stack([render(scene) for scene in make_scenes(20, 231)]))
    assert {kind: hashlib.sha256(array.tobytes()).hexdigest() for kind, array in features.items()} == FEATURES


def test_features_say_what_they_promise_of_a_hand_made_picture() -> None:
    images = np.full((1, 64, 64, 3), 48, dtype=np.uint8)
    assert all(not array.any() for array in scene_features(images).values())
    images[0, 8:12, 20:24, 1] = 48 + 64  # one 4 x 4 block, in patch row 1, column 2
    features = scene_features(images)
    assert np.flatnonzero(features["full"][0]).tolist() == [(2 * 16 + 5) * 3 + 1]
    assert features["full"].max() == 16 * 64 / 1024
    assert np.flatnonzero(features["grid"][0].any(axis=1)).tolist() == [1 * 8 + 2]
    assert set(np.abs(features["pca"][0]).tolist()) == {16 * 64 / 16384}


def test_features_of_different_scenes_differ_and_have_a_handy_scale() -> None:
    features = scene_features(np.stack([render(scene) for scene in make_scenes(200, 1)]))["pca"]
    distances = np.linalg.norm(features[:, None] - features[None], axis=2) + 1e9 * np.eye(200)
    assert distances.min() > 1
    assert 0.3 < features.std() < 3


def test_the_vocabulary_covers_every_scene_whatever_the_seed() -> None:
    words = set(scene_vocabulary().idx_to_word)
    for seed in (1, 2, 3):
        assert {word for scene in make_scenes(300, seed) for text in describe(scene) for word in text.split()} <= words


def test_the_same_seed_writes_the_same_values_and_another_seed_others(folder: Path, tmp_path: Path) -> None:
    again = load_coco_data(write_scenes(tmp_path / "again", train=300, val=40, seed=5))
    other = load_coco_data(write_scenes(tmp_path / "other", train=300, val=40, seed=6))
    data = load_coco_data(folder)
    for key in ("train_captions", "val_captions", "train_features", "val_features", "train_urls"):
        assert np.array_equal(data[key], again[key])
        assert not np.array_equal(data[key], other[key])
    assert data["idx_to_word"] == other["idx_to_word"]


def test_a_folder_of_ours_is_replaced_whole_and_any_other_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "scenes"
    target.mkdir()
    write_scenes(target, train=6, val=2)
    (target / "stale.h5").write_text("of the old scenes")
    assert write_scenes(target, train=3, val=2, seed=9) == target
    assert {path.name for path in target.iterdir()} == NAMES
    assert len(load_coco_data(target)["train_captions"]) == 15
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "coco2014_captions.h5").write_text("precious")
    with pytest.raises(
        ValueError, match=r"write_scenes: folder must be a new or empty folder, .*theirs; name another folder"
    ):
        write_scenes(theirs, train=3, val=2)
    with pytest.raises(ValueError, match="folder must be a new or empty folder"):
        write_scenes(theirs / "coco2014_captions.h5", train=3, val=2)
    assert (theirs / "coco2014_captions.h5").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scenes", "theirs"], "nothing is left beside"


def test_a_failure_on_the_way_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = write_scenes(tmp_path / "scenes", train=4, val=2)
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(scene_files, "write_caption_files", full)
    with pytest.raises(OSError, match="no space left"):
        write_scenes(target, train=9, val=2)
    with pytest.raises(OSError, match="no space left"):
        write_scenes(tmp_path / "new", train=9, val=2)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["scenes"]


def test_a_process_killed_on_the_way_leaves_no_half_folder_under_the_final_name(tmp_path: Path) -> None:
    code = (
        "import sys; from cs_transformers.data.scene_files import write_scenes;"
        "write_scenes(sys.argv[1], train=40, val=100_000, progress=lambda *_: print('half', flush=True))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "scenes")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    assert not (tmp_path / "scenes").exists()
    write_scenes(tmp_path / "scenes", train=4, val=2)
    assert len(load_coco_data(tmp_path / "scenes")["train_captions"]) == 20


def test_two_processes_that_make_the_same_scenes_at_once_both_get_them(tmp_path: Path) -> None:
    code = "from cs_transformers.data.scene_files import ensure_scenes; print(ensure_scenes(30, 5))"
    environment = os.environ | {"CST_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate()[0].strip() for process in running}
    assert all(process.returncode == 0 for process in running)
    assert answers == {str(tmp_path / "scenes" / "seed231-train30-val5")}
    assert len(load_coco_data(answers.pop())["train_captions"]) == 150
    assert [path.name for path in (tmp_path / "scenes").iterdir()] == ["seed231-train30-val5"]


def test_scenes_that_came_meanwhile_are_kept_and_old_ones_replaced(tmp_path: Path) -> None:
    def fill(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / scene_files.SCENES_FILE).write_text(name)
        return tmp_path / name

    folder = tmp_path / "scenes"
    scene_files._put_in_place(fill("first"), folder, None)
    scene_files._put_in_place(fill("second"), folder, None)  # began when there was nothing
    assert (folder / scene_files.SCENES_FILE).read_text() == "first"
    scene_files._put_in_place(fill("third"), folder, folder.stat().st_ino)
    assert (folder / scene_files.SCENES_FILE).read_text() == "third"
    assert not list(tmp_path.glob("*.old"))


def test_scenes_are_made_once_and_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    calls: list[tuple[int, int]] = []
    first = ensure_scenes(8, 4, progress=lambda *step: calls.append(step))
    assert calls == [(8, 12), (12, 12)]
    stamp = (first / "scenes.json").stat().st_mtime_ns
    time.sleep(0.01)
    assert ensure_scenes(8, 4) == first
    assert (first / "scenes.json").stat().st_mtime_ns == stamp
    (first / "scenes.json").write_text(json.dumps({"format": 0}), encoding="utf-8")
    assert ensure_scenes(8, 4) == first, "scenes of an older format are made again"
    assert json.loads((first / "scenes.json").read_text(encoding="utf-8"))["train"] == 8
    assert ensure_scenes(8, 4, seed=1) != first


def test_wrong_arguments_are_refused_and_write_nothing(tmp_path: Path) -> None:
    for options, says in (
        ({"train": 0}, "write_scenes: train must be a positive whole number, got 0"),
        ({"val": -1}, "write_scenes: val must be a positive whole number, got -1"),
        ({"seed": -1}, "write_scenes: seed must be a whole number of at least 0, got -1"),
        ({"seed": 2**32}, "seed must be below 2\\*\\*32"),
    ):
        with pytest.raises(ValueError, match=says):
            write_scenes(tmp_path / "scenes", **options)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(
        ValueError, match=r"scene_features: images must be of shape \(M, 64, 64, 3\), got \(2, 32, 32, 3\)"
    ):
        scene_features(np.zeros((2, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match="scene_from_url: url must be"):
        scenes_of(["http://a/b.jpg"])
