from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from torchvision.transforms.functional import normalize, to_tensor

from cs_transformers.data import images
from cs_transformers.data.images import (
    CIFAR10_CLASSES,
    CIFAR10_MEAN,
    CIFAR10_STD,
    ImageDataset,
    balanced_subset,
    channel_statistics,
    hold_out,
    load_image_folder,
    load_images,
    load_scene_images,
    normalise,
)
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.scenes import SCENE_CLASSES, make_scenes, render, scene_class

# ---------------------------------------------------------------------------------------------------------- splits


def test_held_out_rows_and_the_rest_share_none_and_miss_none() -> None:
    labels = np.random.RandomState(0).randint(0, 5, 97)
    stay, held = hold_out(labels, 20)
    assert sorted([*stay, *held]) == list(range(97))
    assert len(held) == 20


def test_classes_are_held_out_in_proportion() -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    _, held = hold_out(labels, 20)
    assert np.bincount(labels[held]).tolist() == [12, 6, 2]
    _, held = hold_out(np.repeat([0, 1, 2], [5, 5, 5]), 7)
    assert np.bincount(np.repeat([0, 1, 2], [5, 5, 5])[held]).tolist() == [3, 2, 2]


def test_a_cut_depends_on_its_seed_alone() -> None:
    labels = np.random.RandomState(0).randint(0, 5, 97)
    np.random.seed(1)
    first = hold_out(labels, 20)[1]
    np.random.seed(2)
    assert np.array_equal(hold_out(labels, 20)[1], first)
    assert not np.array_equal(hold_out(labels, 20, seed=1)[1], first)


@pytest.mark.parametrize("size", [0, 8, 9])
def test_a_cut_must_leave_both_parts_something(size: int) -> None:
    with pytest.raises(ValueError, match="hold_out: size must be"):
        hold_out([0] * 8, size)


def test_a_balanced_subset_takes_all_of_a_small_class() -> None:
    labels = np.repeat([0, 1, 2], [50, 3, 50])
    chosen = balanced_subset(labels, 20)
    assert np.bincount(labels[chosen]).tolist() == [9, 3, 8]
    assert np.array_equal(chosen, np.unique(chosen))
    assert np.array_equal(balanced_subset(labels, 103), np.arange(103))


@pytest.mark.parametrize("count", [0, 9])
def test_a_subset_cannot_be_larger_than_the_set(count: int) -> None:
    with pytest.raises(ValueError, match="balanced_subset: count must be"):
        balanced_subset([0] * 8, count)


# ----------------------------------------------------------------------------------------------------------- scenes


def test_scenes_are_pictures_of_their_classes() -> None:
    pictures, labels, classes = load_scene_images("val")
    assert (pictures.shape, pictures.dtype, labels.dtype) == ((500, 3, 32, 32), torch.uint8, torch.int64)
    assert classes == SCENE_CLASSES
    scenes = make_scenes(3, images.SCENE_SERIES["val"][0], objects=(1, 1), side=32, grid=2)
    for row, scene in enumerate(scenes):
        assert np.array_equal(pictures[row].permute(1, 2, 0).numpy(), render(scene))
        assert labels[row] == scene_class(scene)


def test_a_few_scenes_are_spread_over_the_classes() -> None:
    few = load_images("scenes", "train", count=40, size=48)
    assert few.images.shape == (40, 3, 48, 48)
    assert few.labels.bincount().tolist() == [4] * 10


def test_the_splits_of_the_scenes_share_no_picture() -> None:
    parts = [load_scene_images(split, count=30).images.flatten(1).unique(dim=0) for split in ("train", "val", "test")]
    assert len(torch.cat(parts).unique(dim=0)) == 90


# ------------------------------------------------------------------------------------------------- CIFAR-10 on disk

PIXELS = {
    "train": np.random.RandomState(1).randint(0, 256, (20, 32, 32, 3), dtype=np.uint8),
    "test": np.random.RandomState(2).randint(0, 256, (10, 32, 32, 3), dtype=np.uint8),
}
LABELS = {"train": np.arange(20) % 10, "test": np.arange(10)[::-1]}


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and an empty cache."""
    monkeypatch.setenv("CST_DATA_DIR", str(tmp_path / "real"))
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "real" / "cifar10").mkdir(parents=True)
    return tmp_path / "real" / "cifar10"


def put_exact(folder: Path) -> Path:
    with h5py.File(folder / "cifar10_exact_4k1k.h5", "w") as file:
        for split in ("train", "test"):
            file.create_dataset(f"X_{split}", data=PIXELS[split], compression="gzip")
            file[f"y_{split}"] = LABELS[split].astype(np.uint8)
    return folder / "cifar10_exact_4k1k.h5"


def jpeg(pixels: np.ndarray) -> bytes:
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG", quality=90, optimize=False)
    return sink.getvalue()


def put_jpeg(folder: Path) -> Path:
    files = {split: [jpeg(picture) for picture in PIXELS[split]] for split in PIXELS}
    size = files["train"][0].index(b"\xff\xda")  # with fixed tables all headers are alike up to the scan
    header = files["train"][0][:size]
    with h5py.File(folder / "cifar10_jpeg.h5", "w") as file:
        file["jpeg_header"] = np.frombuffer(header, np.uint8)
        for split, contents in files.items():
            assert all(content.startswith(header) for content in contents)
            scans = [content[size:] for content in contents]
            file[f"{split}/jpeg_scan"] = np.frombuffer(b"".join(scans), np.uint8)
            file[f"{split}/offsets"] = np.cumsum([0, *map(len, scans)]).astype(np.int32)
            file[f"{split}/labels"] = LABELS[split].astype(np.uint8)
    return folder / "cifar10_jpeg.h5"


class Grumble:
    """Warns while it is unpickled, as some numpy versions do about the dtypes of the real batches, pickled in 2009."""

    def __reduce__(self) -> tuple:
        return warnings.warn, ("dtype(): align should be passed as a boolean",)


def old_pickle(content: dict) -> bytes:
    return pickle.dumps(content | {"batch_label": Grumble()}, protocol=2)


@pytest.fixture
def official(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of the official form, with torchvision told its checksums."""
    bodies = {}
    for number in range(5):
        rows = slice(4 * number, 4 * number + 4)
        data = PIXELS["train"][rows].transpose(0, 3, 1, 2).reshape(4, -1)
        bodies[f"data_batch_{number + 1}"] = old_pickle({"data": data, "labels": LABELS["train"][rows].tolist()})
    data = PIXELS["test"].transpose(0, 3, 1, 2).reshape(10, -1)
    bodies["test_batch"] = old_pickle({"data": data, "labels": LABELS["test"].tolist()})
    bodies["batches.meta"] = old_pickle({"label_names": list(CIFAR10_CLASSES)})
    archive = disk / CIFAR10.filename
    with tarfile.open(archive, "w:gz") as bundle:
        for name, body in bodies.items():
            info = tarfile.TarInfo(f"{CIFAR10.base_folder}/{name}")
            info.size = len(body)
            bundle.addfile(info, io.BytesIO(body))
    md5 = {name: hashlib.md5(body, usedforsecurity=False).hexdigest() for name, body in bodies.items()}
    monkeypatch.setattr(CIFAR10, "train_list", [[f"data_batch_{n}", md5[f"data_batch_{n}"]] for n in range(1, 6)])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": md5["batches.meta"]})
    monkeypatch.setattr(CIFAR10, "tgz_md5", hashlib.md5(archive.read_bytes(), usedforsecurity=False).hexdigest())
    return archive


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_official_archive_and_the_exact_file_give_the_same(official: Path, split: str) -> None:
    put_exact(official.parent)
    expected = torch.from_numpy(PIXELS[split]).permute(0, 3, 1, 2)
    for source in ("official", "exact"):
        pictures, labels, classes = images.load_cifar10(source, split)
        assert torch.equal(pictures, expected), source
        assert torch.equal(labels, torch.from_numpy(LABELS[split].copy()).long())
        assert classes == CIFAR10_CLASSES


def test_jpeg_images_are_what_pillow_decodes_and_close_to_the_exact_ones(disk: Path) -> None:
    put_jpeg(disk)
    pictures, labels, _ = images.load_cifar10("jpeg", "test", progress=False)
    for row, picture in enumerate(pictures):
        decoded = np.asarray(Image.open(io.BytesIO(jpeg(PIXELS["test"][row]))))
        assert np.array_equal(picture.permute(1, 2, 0).numpy(), decoded)
    assert labels.tolist() == LABELS["test"].tolist()


def test_a_decoding_is_kept_and_a_damaged_one_made_again(disk: Path, tmp_path: Path) -> None:
    put_jpeg(disk)
    first = images.load_cifar10("jpeg", "train", progress=False).images
    (kept,) = (tmp_path / "cache" / "cifar10").iterdir()
    marked = np.load(kept)
    marked[3] = 7
    np.save(kept, marked)
    assert (images.load_cifar10("jpeg", "train", progress=False).images[3] == 7).all()  # it was read, not decoded
    kept.write_bytes(kept.read_bytes()[:5000])
    assert torch.equal(images.load_cifar10("jpeg", "train", progress=False).images, first)


def test_another_file_does_not_get_the_decoding_of_the_first(disk: Path) -> None:
    path = put_jpeg(disk)
    before = images.load_cifar10("jpeg", "test", progress=False).images
    with h5py.File(path, "r+") as file:
        offsets = file["test/offsets"]
        scan = file["test/jpeg_scan"][:]
        scan = np.concatenate([scan[offsets[1] :], scan[: offsets[1]]])  # the first picture goes to the end
        sizes = np.roll(np.diff(offsets[:]), -1)
        file["test/jpeg_scan"][:], file["test/offsets"][:] = scan, np.cumsum([0, *sizes])
    after = images.load_cifar10("jpeg", "test", progress=False).images
    assert torch.equal(after, before.roll(-1, dims=0))


def test_a_few_jpeg_images_are_decoded_alone(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jpeg(disk)
    whole = images.load_cifar10("jpeg", "train", progress=False)
    (tmp_path / "cache" / "cifar10").rename(tmp_path / "elsewhere")
    opened = []
    open_image = Image.open
    monkeypatch.setattr(
        "cs_transformers.data.cifar.Image.open", lambda *a, **k: opened.append(1) or open_image(*a, **k)
    )
    few = images.load_cifar10("jpeg", "train", count=10, progress=False)
    assert len(opened) == 10
    assert few.labels.bincount().tolist() == [1] * 10
    rows = balanced_subset(LABELS["train"], 10)
    assert torch.equal(few.images, whole.images[rows])
    assert not (tmp_path / "cache" / "cifar10").exists()


def test_the_best_form_on_disk_is_taken(official: Path) -> None:
    folder = official.parent
    put_exact(folder)
    assert images.find_cifar10() == "official"
    official.unlink()
    assert images.find_cifar10() == "exact"
    put_jpeg(folder)
    assert images.find_cifar10() == "jpeg"
    assert load_images("cifar10-exact", "test").images.shape == (10, 3, 32, 32)


def test_validation_images_come_out_of_the_training_images(disk: Path) -> None:
    put_exact(disk)
    train = load_images("cifar10", "train", val_size=10)
    val = load_images("cifar10", "val", val_size=10)
    both = torch.cat([train.images, val.images]).flatten(1)
    assert torch.equal(
        both.unique(dim=0), torch.from_numpy(PIXELS["train"].transpose(0, 3, 1, 2).reshape(20, -1)).unique(dim=0)
    )
    assert val.labels.bincount().tolist() == [1] * 10
    assert len(load_images("cifar10", "train").labels) == 18  # a tenth unless told
    assert len(images.load_cifar10("exact", "train").labels) == 20  # as published
    with pytest.raises(ValueError, match="val_size must be positive for the split 'val', got 0"):
        images.load_cifar10("exact", "val")


def test_nothing_on_disk_says_how_to_get_it_and_how_to_go_without(disk: Path) -> None:  # noqa: ARG001
    with pytest.raises(FileNotFoundError, match=r"not on disk in any form\. Get it with: cst data get cifar10.*scenes"):
        load_images("cifar10")
    with pytest.raises(FileNotFoundError, match=r"expected cifar10/cifar10_jpeg\.h5 or cifar10_jpeg\.h5; looked in"):
        images.load_cifar10("jpeg")
    with pytest.warns(UserWarning, match=r"scenes stand in for cifar10\. .*cst data get cifar10"):
        stand_in = load_images("cifar10", "val", count=10, fallback=True)
    assert (stand_in.images.shape, stand_in.classes) == ((10, 3, 32, 32), SCENE_CLASSES)


def test_a_damaged_file_is_named_and_no_scenes_stand_in_for_it(disk: Path) -> None:
    path = put_exact(disk)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    for fallback in (False, True):
        with pytest.raises(DamagedFileError, match=rf"size {size // 2}, expected {size}\): delete it.*cst data get"):
            load_images("cifar10", fallback=fallback)


@pytest.mark.parametrize("put", [put_exact, put_jpeg])
def test_an_h5_file_of_other_content_is_named(put: object, disk: Path) -> None:
    path = put(disk)
    with h5py.File(path, "w") as file:
        file["something"] = 1
    with pytest.raises(DamagedFileError, match=rf"{path.name} cannot be read .*cst data get cifar10"):
        load_images("cifar10")


def test_a_damaged_jpeg_is_named_by_its_number(disk: Path) -> None:
    path = put_jpeg(disk)
    with h5py.File(path, "r+") as file:
        offsets = file["test/offsets"][:]
        file["test/jpeg_scan"][offsets[6] : offsets[7]] = 0
    with pytest.raises(DamagedFileError, match=r"cifar10_jpeg\.h5 cannot be read \(image 6: "):
        images.load_cifar10("jpeg", "test", progress=False)


def test_a_damaged_archive_is_not_unpickled(official: Path, tmp_path: Path) -> None:
    official.write_bytes(official.read_bytes()[:-40])
    with pytest.raises(DamagedFileError, match=r"cifar-10-python\.tar\.gz is incomplete or damaged \(size .* md5 not"):
        images.load_cifar10("official")
    assert not (tmp_path / "cache" / "cifar10").exists()


def test_a_damaged_batch_is_named(official: Path, tmp_path: Path) -> None:
    images.load_cifar10("official")
    official.unlink()
    batch = tmp_path / "cache" / "cifar10" / CIFAR10.base_folder / "data_batch_3"
    body = batch.read_bytes()
    batch.write_bytes(body[:100])
    with pytest.raises(DamagedFileError, match=r"data_batch_3 is incomplete or damaged \(size 100, md5 not"):
        images.load_cifar10("official", "test")
    batch.unlink()
    with pytest.raises(FileNotFoundError, match=r"expected .*data_batch_3, there is none.*cst data get cifar10"):
        images.load_cifar10("official", "test")


def test_a_cache_that_cannot_be_written_costs_time_not_the_images(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_jpeg(disk)
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="were not kept, the next call decodes them again: .*CST_CACHE_DIR"):
        pictures = images.load_cifar10("jpeg", "test", progress=False).images
    assert pictures.shape == (10, 3, 32, 32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_images("cifar100"), r"data must be a folder or one of scenes, cifar10, .*, got 'cifar100'"),
        (lambda: load_images("scenes", "validation"), "split must be one of 'train', 'val', 'test'"),
        (lambda: images.load_cifar10("best"), "source must be one of"),
        (lambda: images.load_cifar10("exact", "dev"), "split must be one of"),
        (lambda: load_scene_images("train", count=0), "count must be"),
    ],
)
def test_wrong_choices_are_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------------------------------------------- photo folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, count in (("train", 10), ("test", 2)):
        for label, name in enumerate(("cat", "dog")):
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(count):
                shade = 100 * label + number + (50 if split == "test" else 0)
                Image.new("L", (9, 6), shade).save(tmp_path / split / name / f"{number:02d}.png")
    return tmp_path


def test_a_folder_per_class_becomes_images_and_labels(folder: Path) -> None:
    test = load_images(folder, "test", size=8)
    assert test.classes == ("cat", "dog")
    assert test.images.shape == (4, 3, 8, 8)
    assert [(int(image.unique()), int(label)) for image, label in zip(*test[:2], strict=True)] == [
        (50, 0), (51, 0), (150, 1), (151, 1),
    ]  # fmt: skip


def test_without_a_val_folder_training_images_are_held_out(folder: Path) -> None:
    train, val = (load_image_folder(folder, split, val_size=4, size=4) for split in ("train", "val"))
    shades = [set(part.images.unique().tolist()) for part in (train, val)]
    assert (len(shades[0]), len(shades[1]), len(shades[0] | shades[1])) == (16, 4, 20)
    assert len(load_image_folder(folder, "train", val_size=0, size=4).labels) == 20


def test_a_val_folder_leaves_the_training_images_whole(folder: Path) -> None:
    (folder / "test").rename(folder / "val")
    assert len(load_image_folder(folder, "train", size=4).labels) == 20
    assert len(load_image_folder(folder, "val", size=4).labels) == 4


def test_classes_right_in_the_folder_are_the_training_images(folder: Path) -> None:
    assert len(load_image_folder(folder / "train", "train", count=6, val_size=2, size=4).labels) == 6
    with pytest.raises(FileNotFoundError, match=r"expected the folder .*test, there is none"):
        load_image_folder(folder / "train", "test")
    with pytest.raises(FileNotFoundError, match="expected a folder per class in"):
        load_image_folder(folder / "train" / "cat", "train")


# -------------------------------------------------------------------------------------------------- for the loader

BYTES = torch.randint(0, 256, (7, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_normalising_is_what_torchvision_does() -> None:
    for image in BYTES:
        expected = normalize(to_tensor(image.permute(1, 2, 0).numpy()), CIFAR10_MEAN, CIFAR10_STD)
        torch.testing.assert_close(normalise(image, CIFAR10_MEAN, CIFAR10_STD), expected)
    torch.testing.assert_close(normalise(BYTES)[2], to_tensor(BYTES[2].permute(1, 2, 0).numpy()))


def test_statistics_are_those_of_the_pixels() -> None:
    mean, std = channel_statistics(BYTES)
    pixels = BYTES.double().transpose(0, 1).flatten(1) / 255
    torch.testing.assert_close(torch.tensor(mean, dtype=torch.float64), pixels.mean(dim=1))
    torch.testing.assert_close(torch.tensor(std, dtype=torch.float64), pixels.std(dim=1, correction=0))


def test_a_data_set_gives_the_same_one_by_one_in_batches_and_through_a_loader() -> None:
    labels = torch.arange(7) % 3
    dataset = pickle.loads(pickle.dumps(ImageDataset(BYTES, labels, CIFAR10_MEAN, CIFAR10_STD)))
    expected = normalise(BYTES, CIFAR10_MEAN, CIFAR10_STD)
    assert len(dataset) == 7
    assert torch.equal(dataset[5][0], expected[5])
    assert dataset[5][1] == 2
    assert torch.equal(dataset.batch(torch.tensor([6, 0]))[0], expected[[6, 0]])
    batches = list(DataLoader(dataset, batch_size=3))
    assert torch.equal(torch.cat([batch[0] for batch in batches]), expected)
    assert torch.equal(torch.cat([batch[1] for batch in batches]), labels)


def test_images_that_are_scaled_already_or_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match=r"normalise: images must be of dtype torch\.uint8, got torch\.float32"):
        normalise(BYTES.float())
    with pytest.raises(ValueError, match="normalise: mean must be one number for each of the 3 channels, got 1"):
        ImageDataset(BYTES, torch.zeros(7), mean=[0.5])
    with pytest.raises(ValueError, match="normalise: std must be one number for each"):
        normalise(BYTES, std=[1.0] * 4)
    with pytest.raises(ValueError, match="labels must be one for each image, got 7 images and 6 labels"):
        ImageDataset(BYTES, torch.zeros(6))


# ------------------------------------------------------------------------------------------------------- real data


@pytest.fixture
def real(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if not (data_dir / "cifar10" / "cifar10_jpeg.h5").is_file():
        pytest.skip("real data: no cifar10 in CST_DATA_DIR")
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    return data_dir / "cifar10"


@pytest.mark.usefixtures("real")
def test_real_jpeg_images_are_as_far_from_the_exact_ones_as_their_description_says() -> None:
    rows = np.arange(0, 4000, 16)
    decoded, exact = (images.read_cifar10(form, "train", rows).float() for form in ("jpeg", "exact"))
    assert (decoded - exact).square().mean().sqrt() == pytest.approx(8.09, abs=0.15)
    labels = [images.read_cifar10_labels(form, "train")[:4000] for form in ("jpeg", "exact")]
    assert np.array_equal(*labels)


@pytest.mark.usefixtures("real")
def test_real_cifar_has_5000_images_a_class() -> None:
    assert np.bincount(images.read_cifar10_labels("jpeg", "train")).tolist() == [5000] * 10
    assert np.bincount(images.read_cifar10_labels("jpeg", "test")).tolist() == [1000] * 10


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_all_real_images_have_the_published_statistics_and_decode_alike_twice() -> None:
    first = images.load_cifar10("jpeg", "train", progress=False)
    mean, std = channel_statistics(first.images)
    assert mean == pytest.approx(CIFAR10_MEAN, abs=5e-4)
    assert std == pytest.approx(CIFAR10_STD, abs=2e-3)
    again = images.load_cifar10("jpeg", "train", progress=False)
    assert torch.equal(again.images, first.images)
