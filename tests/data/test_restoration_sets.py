from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cs_transformers.data.degradations import as_pixels, shrink
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.restoration_sets import PhotoPatches, load_pairs, training_photos

SET5 = [(512, 512), (288, 288), (256, 256), (280, 280), (344, 228)]  # height, width as published, cut to twos


def save(folder: Path, name: str, height: int, width: int) -> np.ndarray:
    values = np.random.RandomState(height).randint(0, 256, (height, width, 3), dtype=np.uint8)
    folder.mkdir(exist_ok=True)
    Image.fromarray(values).save(folder / name)
    return values


def test_published_pairs_are_read_and_the_large_photo_is_cut_from_the_top_left(tmp_path: Path) -> None:
    large = save(tmp_path, "a_HR.png", 14, 23)
    small = save(tmp_path, "a_LRx4.png", 3, 5)
    (pair,) = load_pairs(tmp_path, 4)
    assert pair.name == "a"
    assert np.array_equal(pair.small.permute(1, 2, 0).numpy(), small)
    assert np.array_equal(pair.large.permute(1, 2, 0).numpy(), large[:12, :20])


def test_other_photos_are_cut_and_shrunk_here(tmp_path: Path) -> None:
    large = save(tmp_path, "b.png", 11, 16)
    (pair,) = load_pairs(tmp_path, 3)
    kept = torch.from_numpy(large[:9, :15]).permute(2, 0, 1)
    assert torch.equal(pair.large, kept)
    assert torch.equal(pair.small, (255 * shrink(as_pixels(kept)[None], 3)[0]).round().byte())


@pytest.mark.usefixtures("data_dir")
def test_set5_has_its_published_sizes_at_both_scales() -> None:
    for scale in (2, 4):
        pairs = load_pairs("Set5", scale)
        assert [tuple(pair.large.shape[1:]) for pair in pairs] == SET5
        for pair in pairs:
            assert tuple(scale * side for side in pair.small.shape[1:]) == tuple(pair.large.shape[1:])


@pytest.mark.usefixtures("data_dir")
def test_set14_is_whole_at_both_scales() -> None:
    for scale in (2, 4):
        pairs = load_pairs("Set14", scale)
        assert len(pairs) == 13
        assert torch.equal(pairs[2].large[0], pairs[2].large[1])  # the grey one


def test_a_scale_that_is_not_there_is_named(tmp_path: Path) -> None:
    save(tmp_path, "a_HR.png", 14, 22)
    save(tmp_path, "a_LRx2.png", 7, 11)
    with pytest.raises(FileNotFoundError, match=r"a_LRx3\.png, there is none \(only a_LRx2\.png\)"):
        load_pairs(tmp_path, 3)


def test_a_small_photo_of_another_photo_is_refused(tmp_path: Path) -> None:
    save(tmp_path, "a_HR.png", 14, 22)
    save(tmp_path, "a_LRx2.png", 8, 11)
    with pytest.raises(DamagedFileError, match=r"a_LRx2\.png of shape \(3, 8, 11\) is not the image a_HR\.png"):
        load_pairs(tmp_path, 2)


def test_a_set_that_is_not_on_disk_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"load_pairs: expected sr/Set5 or Set5; looked in .*img_001_HR\.png"):
        load_pairs("Set5", 2)
    with pytest.raises(FileNotFoundError, match="training_photos: expected coco_mini/train2017 or"):
        training_photos("photos")


def test_training_photos_are_those_that_are_large_enough(tmp_path: Path) -> None:
    save(tmp_path, "a.png", 20, 30)
    save(tmp_path, "b.png", 9, 30)
    assert [tuple(photo.shape) for photo in training_photos(tmp_path, least=10)] == [(3, 20, 30)]
    with pytest.raises(FileNotFoundError, match="expected photos of at least 50 pixels a side"):
        training_photos(tmp_path, least=50)


def test_patches_lie_on_a_grid_and_come_singly_or_in_batches() -> None:
    photos = [torch.arange(3 * 10 * 14, dtype=torch.uint8).reshape(3, 10, 14), torch.ones(3, 8, 8, dtype=torch.uint8)]
    patches = PhotoPatches(photos, size=8, stride=3)
    assert patches.places == [(0, 0, 0), (0, 0, 3), (0, 0, 6), (1, 0, 0)]
    assert torch.equal(patches[1][0], photos[0][:, 0:8, 3:11])
    (batch,) = patches.batch(torch.tensor([2, 3]))
    assert torch.equal(batch[0], photos[0][:, 0:8, 6:14])
    assert torch.equal(batch[1], photos[1])


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("scale must be one of 2, 3, 4", lambda: load_pairs("Set5", 5)),
        ("photos must be one or more of 8 pixels a side, got none", lambda: PhotoPatches([], 8)),
        ("photos must be one or more of 8 pixels a side, got", lambda: PhotoPatches([torch.zeros(3, 7, 9)], 8)),
        ("stride must be", lambda: PhotoPatches([torch.zeros(3, 9, 9)], 8, 0)),
    ],
)
def test_what_does_not_fit_is_refused(message: str, call: object) -> None:
    with pytest.raises(ValueError, match=message):
        call()
