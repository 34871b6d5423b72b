from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.photo_files import Photo, check_photo_target, read_photo_file, write_photo_file

COLOUR = np.random.RandomState(0).randint(0, 256, (7, 5, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]


def there_and_back(image: Image.Image, folder: Path, suffix: str = ".png", **options: object) -> Image.Image:
    image.save(folder / f"in{suffix}", **options)
    write_photo_file(folder / f"out{suffix}", read_photo_file(folder / f"in{suffix}"))
    with Image.open(folder / f"out{suffix}") as back:
        back.load()
    return back


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp"])
def test_colour_comes_back_byte_for_byte(tmp_path: Path, suffix: str) -> None:
    back = there_and_back(Image.fromarray(COLOUR), tmp_path, suffix)
    assert (back.mode, np.array_equal(np.asarray(back), COLOUR)) == ("RGB", True)


def test_grey_stays_grey_and_is_read_as_three_equal_channels(tmp_path: Path) -> None:
    back = there_and_back(Image.fromarray(GREY), tmp_path)
    assert (back.mode, np.array_equal(np.asarray(back), GREY)) == ("L", True)
    photo = read_photo_file(tmp_path / "in.png")
    assert photo.grey
    assert torch.equal(photo.pixels[0], photo.pixels[2])
    assert photo.pixels.shape == (3, 7, 5)


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_transparency_comes_back(tmp_path: Path, mode: str, suffix: str) -> None:
    image = Image.fromarray(COLOUR).convert(mode)
    image.putalpha(Image.fromarray(GREY))
    back = there_and_back(image, tmp_path, suffix)
    assert back.mode == mode
    assert np.array_equal(np.asarray(back), np.asarray(image))


def test_a_palette_with_a_transparent_colour_becomes_colour_with_transparency(tmp_path: Path) -> None:
    image = Image.fromarray(COLOUR).quantize(8)
    image.save(tmp_path / "in.png", transparency=2)
    photo = read_photo_file(tmp_path / "in.png")
    assert photo.alpha is not None
    assert photo.alpha.unique().tolist() == [0, 1]
    assert torch.equal(photo.alpha[0] == 0, torch.from_numpy(np.asarray(image) == 2))


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_of_grey_come_back_to_the_last_bit(tmp_path: Path, suffix: str) -> None:
    levels = np.random.RandomState(1).randint(0, 65536, (7, 5)).astype(np.uint16)
    back = there_and_back(Image.fromarray(levels), tmp_path, suffix)
    assert np.array_equal(np.asarray(back).astype(np.int64), levels)
    assert read_photo_file(tmp_path / f"in{suffix}").depth == 16


def test_sixteen_bits_of_grey_become_eight_where_the_format_has_no_more(tmp_path: Path) -> None:
    photo = Photo(torch.full((3, 4, 4), 0.5), grey=True, depth=16)
    write_photo_file(tmp_path / "out.bmp", photo)
    assert np.asarray(Image.open(tmp_path / "out.bmp")).tolist() == [[128] * 4] * 4


def write_deep_colour_png(path: Path) -> None:
    """A PNG of two pixels, RGB with 16 bits a channel, by hand: Pillow cannot write one."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = b"\0" + struct.pack(">6H", 0x1234, 0x8000, 0xFFFF, 0, 257, 514)
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def test_sixteen_bits_of_colour_are_read_as_eight_and_that_is_said(tmp_path: Path) -> None:
    write_deep_colour_png(tmp_path / "in.png")
    photo = read_photo_file(tmp_path / "in.png")
    assert "16 bits a channel were read as 8" in photo.note
    assert (photo.pixels * 255).round()[:, 0].int().tolist() == [[0x12, 0], [0x80, 1], [0xFF, 2]]


def test_a_photo_taken_sideways_is_turned_upright_once(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    back = there_and_back(Image.fromarray(COLOUR), tmp_path, exif=exif)
    assert np.array_equal(np.asarray(back), np.rot90(COLOUR, -1))
    assert back.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize(("mode", "grey"), [("1", True), ("P", False), ("CMYK", False), ("YCbCr", False)])
def test_other_modes_become_grey_or_colour(tmp_path: Path, mode: str, grey: bool) -> None:
    Image.fromarray(COLOUR).convert(mode).save(tmp_path / "in.tif")
    photo = read_photo_file(tmp_path / "in.tif")
    assert photo.grey == grey
    assert photo.pixels.shape == (3, 7, 5)
    assert photo.alpha is None


def test_a_colour_profile_goes_along(tmp_path: Path) -> None:
    back = there_and_back(Image.fromarray(COLOUR), tmp_path, icc_profile=b"a profile")
    assert back.info["icc_profile"] == b"a profile"


@pytest.mark.parametrize("mode", ["CMYK", "LAB"])
def test_a_profile_of_other_colours_than_rgb_is_left_out_and_that_is_said(tmp_path: Path, mode: str) -> None:
    """Beside RGB pixels a viewer would take it at its word and show wrong colours."""
    image = Image.fromarray(COLOUR).convert("CMYK") if mode == "CMYK" else Image.new("LAB", (5, 7))
    image.save(tmp_path / "in.tif", icc_profile=b"a profile")
    photo = read_photo_file(tmp_path / "in.tif")
    write_photo_file(tmp_path / "out.png", photo)
    assert photo.note == f"its {mode} colours became RGB, and its profile was left out"
    with Image.open(tmp_path / "out.png") as back:
        assert "icc_profile" not in back.info


def test_jpeg_is_written_in_good_quality(tmp_path: Path) -> None:
    smooth = torch.linspace(0, 1, 40).expand(3, 30, 40)
    write_photo_file(tmp_path / "out.jpg", Photo(smooth))
    back = np.asarray(Image.open(tmp_path / "out.jpg")).astype(float) / 255
    assert abs(back - smooth.permute(1, 2, 0).numpy()).max() < 0.02


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 60, b"GIF89a"])
def test_what_is_no_picture_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.png").write_bytes(content)
    with pytest.raises(DamagedFileError, match=r"in\.png cannot be read as a picture"):
        read_photo_file(tmp_path / "in.png")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp", ".bmp"])
def test_a_photo_that_is_cut_off_is_named(tmp_path: Path, suffix: str) -> None:
    noise = np.random.RandomState(0).randint(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png", format=Image.registered_extensions()[suffix])
    whole = (tmp_path / "whole.png").read_bytes()
    (tmp_path / f"in{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFileError, match="cannot be read as a picture"):
        read_photo_file(tmp_path / f"in{suffix}")


def test_a_huge_photo_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    Image.fromarray(COLOUR).save(tmp_path / "in.png")
    with pytest.raises(ValueError, match="the photo must be of at most 34 pixels"):
        read_photo_file(tmp_path / "in.png", max_pixels=34)
    assert read_photo_file(tmp_path / "in.png", max_pixels=35).pixels.shape == (3, 7, 5)


def test_a_file_that_claims_to_be_enormous_is_refused(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    (tmp_path / "in.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + b"\0" * 4)
    with pytest.raises(ValueError, match="of at most 50,000,000 pixels"):
        read_photo_file(tmp_path / "in.png")


def test_numbers_that_are_no_grey_levels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((3, 3), 70_000, dtype=np.int32)).save(tmp_path / "deep.tif")
    with pytest.raises(ValueError, match="grey levels must be from 0 to 65535, got 70000"):
        read_photo_file(tmp_path / "deep.tif")
    Image.fromarray(np.full((3, 3), 0.5, dtype=np.float32)).save(tmp_path / "floats.tif")
    with pytest.raises(ValueError, match="must be of whole grey levels, got floating numbers"):
        read_photo_file(tmp_path / "floats.tif")


def test_a_missing_photo_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a photo at .*none\.png"):
        read_photo_file(tmp_path / "none.png")


CLEAR = Photo(torch.zeros(3, 2, 2), alpha=torch.zeros(1, 2, 2))


@pytest.mark.parametrize(
    ("name", "photo", "message"),
    [
        ("out.xyz", None, "the suffix must be of a picture format, got .xyz; use .png"),
        ("out", None, "the suffix must be of a picture format, got no suffix"),
        ("out.jpg", CLEAR, "of a format with transparency, got .jpg; use .png"),
        ("out.bmp", CLEAR, "of a format with transparency"),
        (".", None, "the path must be a file, got the folder"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path: Path, name: str, photo: Photo | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_photo_target(tmp_path / name, photo)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out.png").write_bytes(b"older")

    def stop(_: Image.Image, path: Path, **_options: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        write_photo_file(tmp_path / "out.png", Photo(torch.zeros(3, 2, 2)))
    assert [path.name for path in tmp_path.iterdir()] == ["out.png"]
    assert (tmp_path / "out.png").read_bytes() == b"older"
