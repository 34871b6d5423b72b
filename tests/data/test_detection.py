"""Pictures with boxes: scenes, COCO's form with crowds and empty photos, batches of different sizes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cs_transformers.boxes import cxcywh_to_xyxy
from cs_transformers.data import detection
from cs_transformers.data.detection import collate_detections, load_boxes, read_coco_boxes, scene_boxes
from cs_transformers.data.paths import DamagedFileError, data_dir
from cs_transformers.data.scenes import render, scene_from_url

IMAGES = [
    {"id": 7, "file_name": "a.png", "width": 40, "height": 20},
    {"id": 3, "file_name": "b.png", "width": 10, "height": 30},
    {"id": 5, "file_name": "empty.png", "width": 12, "height": 8},
]
CATEGORIES = [{"id": 90, "name": "zebra"}, {"id": 1, "name": "ant"}]
ANNOTATIONS = [
    {"id": 1, "image_id": 7, "category_id": 90, "bbox": [10, 5, 20, 10], "iscrowd": 0},
    {"id": 2, "image_id": 7, "category_id": 1, "bbox": [0, 0, 40, 20], "iscrowd": 1},
    {"id": 3, "image_id": 3, "category_id": 1, "bbox": [5, 10, 20, 10]},
    {"id": 4, "image_id": 3, "category_id": 1, "bbox": [2, 2, 0, 5]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for number, image in enumerate(IMAGES):
        pixels = np.full((image["height"], image["width"], 3), 10 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / image["file_name"])
    write(tmp_path)
    return tmp_path


def write(folder: Path, **changes: object) -> Path:
    content = {"images": IMAGES, "categories": CATEGORIES, "annotations": ANNOTATIONS, **changes}
    path = folder / "instances_train.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_boxes_of_scenes_are_those_of_their_objects() -> None:
    data = scene_boxes(6, seed=3)
    for index in range(6):
        scene = scene_from_url(data.names[index])
        image, target = data[index]
        assert np.array_equal(image.numpy().transpose(1, 2, 0), render(scene))
        corners = cxcywh_to_xyxy(target["boxes"]) * 64
        torch.testing.assert_close(corners, torch.tensor([item.box for item in scene.objects]).float())
        assert [data.classes[label] for label in target["labels"]] == [item.shape for item in scene.objects]


def test_a_series_of_scenes_can_begin_anywhere_and_splits_share_none() -> None:
    assert scene_boxes(5, seed=3).names[3:] == scene_boxes(2, seed=3, first=3).names
    names = [set(load_boxes("scenes", split, count=20).names) for split in detection.SPLITS]
    assert not names[0] & names[1]
    assert not names[1] & names[2]


def test_categories_are_numbered_in_the_order_of_their_ids(folder: Path) -> None:
    data = read_coco_boxes(folder / "instances_train.json", folder / "images")
    assert data.classes == ("ant", "zebra")
    assert data.truths[0]["labels"].tolist() == [1]
    assert data.names == ["a.png", "b.png", "empty.png"]


def test_boxes_are_corners_in_pixels_cut_off_at_the_edges(folder: Path) -> None:
    data = read_coco_boxes(folder / "instances_train.json", folder / "images")
    assert data.truths[0]["boxes"].tolist() == [[10, 5, 30, 15]]
    assert data.truths[1]["boxes"].tolist() == [[5, 10, 10, 20]]
    assert data.dropped == 1
    assert data[0][1]["boxes"].tolist() == [[0.5, 0.5, 0.5, 0.5]]


def test_crowds_are_kept_apart_and_never_learnt_from(folder: Path) -> None:
    truth = read_coco_boxes(folder / "instances_train.json", folder / "images").truths[0]
    assert truth["crowd_boxes"].tolist() == [[0, 0, 40, 20]]
    assert truth["crowd_labels"].tolist() == [0]
    assert "crowd_boxes" not in detection.target_of(truth)


def test_photos_without_objects_stay(folder: Path) -> None:
    image, target = read_coco_boxes(folder / "instances_train.json", folder / "images")[2]
    assert image.shape == (3, 8, 12)
    assert target["labels"].shape == (0,)
    assert target["boxes"].shape == (0, 4)


def test_a_batch_of_several_sizes_is_padded_and_says_where(folder: Path) -> None:
    data = load_boxes(folder, "train")
    batch = data.batch(torch.tensor([1, 0]))
    assert batch["images"].shape == (2, 3, 30, 40)
    assert batch["pixel_mask"].sum(dim=(1, 2)).tolist() == [300, 800]
    assert [target["size"].tolist() for target in batch["targets"]] == [[30, 10], [20, 40]]
    assert data.batch(torch.tensor([0, 0]))["pixel_mask"] is None


def test_photos_are_scaled_but_truths_stay_in_their_own_pixels(folder: Path) -> None:
    data = load_boxes(folder, "train", side=10)
    image, target = data[0]
    assert image.shape == (3, 10, 20)
    assert target["size"].tolist() == [10, 20]
    assert target["boxes"].tolist() == [[0.5, 0.5, 0.5, 0.5]]
    assert data.truths[0]["boxes"].tolist() == [[10, 5, 30, 15]]


def test_a_data_set_of_photos_goes_to_another_process(folder: Path) -> None:
    data = pickle.loads(pickle.dumps(load_boxes(folder, "train")))
    assert torch.equal(data[1][0], load_boxes(folder, "train")[1][0])


def test_the_official_layout_is_found_too(folder: Path) -> None:
    (folder / "annotations").mkdir()
    (folder / "instances_train.json").rename(folder / "annotations" / "instances_val2017.json")
    (folder / "images").rename(folder / "val2017")
    assert len(load_boxes(folder, "val", count=2)) == 2


def test_photos_are_upright_and_have_three_channels(tmp_path: Path) -> None:
    picture = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3))
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera lay on its side
    picture.save(tmp_path / "turned.png", exif=turned)
    assert detection.read_photo(tmp_path / "turned.png").shape == (3, 3, 2)


def test_collating_nothing_but_one_picture_keeps_all_axes() -> None:
    batch = collate_detections([scene_boxes(1, seed=3)[0]])
    assert batch["images"].shape == (1, 3, 64, 64)


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"annotations": [{**ANNOTATIONS[0], "image_id": 99}]}, ValueError, r"image_id must be one .* lists, got 99"),
    ({"annotations": [{**ANNOTATIONS[0], "category_id": 2}]}, ValueError, "category_id must be one that"),
    ({"images": None}, DamagedFileError, "incomplete or no COCO file of boxes"),
    ({"annotations": [{"id": 1, "image_id": 7, "category_id": 1}]}, DamagedFileError, "KeyError: 'bbox'"),
])  # fmt: skip
def test_odd_files_are_refused(folder: Path, change: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        read_coco_boxes(write(folder, **change), folder / "images")


def test_a_file_cut_off_is_called_so(folder: Path) -> None:
    path = folder / "instances_train.json"
    path.write_text(path.read_text()[:50])
    with pytest.raises(DamagedFileError, match="delete it and get it again"):
        read_coco_boxes(path, folder / "images")


def test_missing_things_are_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the file .*nowhere\.json"):
        read_coco_boxes(tmp_path / "nowhere.json", folder)
    with pytest.raises(FileNotFoundError, match=r"expected instances_test\.json or annotations"):
        load_boxes(folder, "test")
    with pytest.raises(FileNotFoundError, match="no-such-folder"):
        load_boxes(tmp_path / "no-such-folder")
    monkeypatch.setenv("CST_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="a folder bccd in CST_DATA_DIR or the cache"):
        load_boxes("bccd")
    (folder / "images" / "a.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"expected the photo .*a\.png"):
        load_boxes(folder, "train")[0]
    (folder / "images" / "b.png").write_text("no picture")
    with pytest.raises(DamagedFileError, match=r"b\.png cannot be read as a picture"):
        load_boxes(folder, "train")[1]


@pytest.mark.parametrize(("options", "message"), [
    ({"split": "dev"}, "split must be one of 'train', 'val', 'test'"), ({"count": 0}, "count must be a positive"),
])  # fmt: skip
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_boxes("scenes", **options)
    with pytest.raises(ValueError, match="side must be a positive"):
        detection.DetectionDataset([], None, [], side=0)


def test_the_blood_cells_are_complete() -> None:
    if data_dir() is None or not (data_dir() / "bccd").is_dir():
        pytest.skip("needs bccd in the folder that CST_DATA_DIR names")
    counts = {split: load_boxes("bccd", split) for split in detection.SPLITS}
    assert [len(data) for data in counts.values()] == [205, 87, 72]
    assert [sum(len(truth["labels"]) for truth in data.truths) for data in counts.values()] == [2804, 1137, 945]
    assert counts["train"].classes == ("RBC", "WBC", "Platelets")
    assert counts["train"][0][0].shape == (3, 240, 320)


def test_cocos_crowds_and_empty_photos_are_read() -> None:
    if data_dir() is None or not (data_dir() / "coco_mini").is_dir():
        pytest.skip("needs coco_mini in the folder that CST_DATA_DIR names")
    data = load_boxes(data_dir() / "coco_mini", "val")
    assert len(data) == 51
    assert len(data.classes) == 80
    assert sum(len(truth["crowd_labels"]) for truth in data.truths) == 4
    for index in (0, 50):
        image, target = data[index]
        assert image.shape[1:] == tuple(target["size"])
        assert ((target["boxes"] >= 0) & (target["boxes"] <= 1)).all()
