from __future__ import annotations

import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.photos import PhotoFolder, StoredImages, list_photos, read_photo

PIXELS = np.random.RandomState(0).randint(0, 256, (7, 5, 3), dtype=np.uint8)


def test_a_photo_keeps_its_pixels(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    photo = read_photo(tmp_path / "a.png")
    assert photo.dtype == torch.uint8
    assert np.array_equal(photo.permute(1, 2, 0).numpy(), PIXELS)


def test_squashing_is_the_bicubic_resize_of_pillow(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    expected = np.asarray(Image.fromarray(PIXELS).resize((12, 12), Image.Resampling.BICUBIC))
    assert np.array_equal(read_photo(tmp_path / "a.png", 12).permute(1, 2, 0).numpy(), expected)


def test_a_photo_taken_sideways_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_photo(tmp_path / "a.png").permute(1, 2, 0).numpy(), np.rot90(PIXELS, -1))


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK", "PA"])
def test_every_colour_mode_becomes_rgb(mode: str, tmp_path: Path) -> None:
    suffix = ".tif" if mode in ("CMYK", "PA", "LA") else ".png"
    name = tmp_path / f"a{suffix}"
    image = Image.new("RGB", (6, 4), (255, 255, 255)).convert("P" if mode == "PA" else mode)
    image.save(name, transparency=b"\x00\x80") if mode == "P" else image.save(name)
    assert read_photo(name).shape == (3, 4, 6)
    assert (read_photo(name) == 255).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
def test_a_cut_photo_is_named(share: float, tmp_path: Path) -> None:
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (90, 80, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DamagedFileError, match=r"a\.jpg cannot be read as a picture .*: replace or remove it"):
        read_photo(tmp_path / "a.jpg")


def test_a_missing_photo_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a photo at .*a\.jpg"):
        read_photo(tmp_path / "a.jpg")


def test_photos_are_listed_in_order_without_what_is_none(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", ".hidden.png", "notes.txt", "자전거.jpg"):
        (tmp_path / name).write_bytes(b"")
    assert list_photos(tmp_path) == ["a.png", "b.JPG", "자전거.jpg"]


def test_a_folder_without_photos_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no photo"):
        list_photos(tmp_path)
    with pytest.raises(FileNotFoundError, match="expected a folder of photos"):
        list_photos(tmp_path / "nowhere")


@pytest.fixture
def album(tmp_path: Path) -> Path:
    for number, name in enumerate(("b.png", "a.png", "c.png")):
        Image.fromarray(np.full((6, 9, 3), 10 * number, dtype=np.uint8)).save(tmp_path / name)
    return tmp_path


def test_rows_follow_the_names(album: Path) -> None:
    photos = PhotoFolder(album, ["c.png", "b.png"], size=4)
    assert [int(photos[row].unique()) for row in range(len(photos))] == [20, 0]
    assert PhotoFolder(album, size=4).names == ["a.png", "b.png", "c.png"]


def test_missing_photos_are_counted_and_the_first_is_named(album: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"2 of 3 photos are not in .*, the first is x\.png"):
        PhotoFolder(album, ["a.png", "x.png", "y.png"])


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(album: Path, size: int) -> None:
    with pytest.raises(ValueError, match="PhotoFolder: size must be a positive whole number"):
        PhotoFolder(album, size=size)


def test_a_fingerprint_changes_with_photos_order_and_size(album: Path) -> None:
    names = ["a.png", "b.png"]
    prints = {
        PhotoFolder(album, names, size=4).fingerprint(),
        PhotoFolder(album, names[::-1], size=4).fingerprint(),
        PhotoFolder(album, names, size=5).fingerprint(),
    }
    assert PhotoFolder(album, names, size=4).fingerprint() in prints
    Image.fromarray(PIXELS).save(album / "a.png")
    assert len(prints | {PhotoFolder(album, names, size=4).fingerprint()}) == 4


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, np.ndarray]:
    pixels = np.random.RandomState(2).randint(0, 256, (5, 6, 4, 3), dtype=np.uint8)
    with h5py.File(tmp_path / "images.h5", "w") as file:
        file["images"] = pixels
    return tmp_path / "images.h5", pixels


def test_stored_images_read_alike_one_by_one_and_in_batches(store: tuple[Path, np.ndarray]) -> None:
    path, pixels = store
    images = pickle.loads(pickle.dumps(StoredImages(path)))
    expected = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    assert torch.equal(torch.stack([images[row] for row in range(5)]), expected)
    assert torch.equal(torch.cat(list(DataLoader(images, batch_size=2))), expected)


def test_a_file_of_other_arrays_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "images.h5", "w") as file:
        file["images"] = np.zeros((2, 3))
    with pytest.raises(DamagedFileError, match=r"expected uint8 pictures \(M, H, W, 3\) in .*images\.h5, got float64"):
        StoredImages(tmp_path / "images.h5")
