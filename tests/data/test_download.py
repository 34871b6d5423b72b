from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cs_transformers.data import sources
from cs_transformers.data.download import data_set_state, get_data_set, list_data_sets
from cs_transformers.data.sources import DATA_SETS, RemoteDataSet, RemoteFile
from cs_transformers.data.transfer import DownloadError

if TYPE_CHECKING:
    from tests.data.conftest import Shelf


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def make_zip(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, body in entries.items():
            bundle.writestr(name, body)
    return path


@pytest.fixture
def pond(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteDataSet:
    """A data set on the little server, in the registry."""
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    shelf.files["/ducks.zip"] = make_zip(
        tmp_path / "ducks.zip", {"ducks/1.jpg": b"1", "ducks/2.jpg": b"2"}
    ).read_bytes()
    shelf.files["/names.txt"] = b"mallard"
    entry = RemoteDataSet(
        name="pond",
        what="two ducks",
        folder="pond",
        leaves=(("names.txt", 1), ("photos/*.jpg", 2)),
        sources=(
            RemoteFile("names.txt", (f"{shelf.url}/names.txt",)),
            RemoteFile("ducks.zip", (f"{shelf.url}/ducks.zip",), unpack=True),
        ),
        download=1000,
        licence="none",
    )
    monkeypatch.setitem(DATA_SETS, "pond", entry)
    return entry


def repack(shelf: Shelf, tmp_path: Path, entries: dict[str, bytes]) -> None:
    shelf.files["/ducks.zip"] = make_zip(tmp_path / "ducks.zip", entries).read_bytes()


@pytest.mark.usefixtures("pond")
def test_a_data_set_is_fetched_unpacked_and_then_known(shelf: Shelf, tmp_path: Path) -> None:
    repack(shelf, tmp_path, {"photos/1.jpg": b"1", "photos/2.jpg": b"2"})
    before = data_set_state("pond")
    assert (before.ready, before.folder, before.missing) == (False, None, ("names.txt", "photos/*.jpg"))
    folder = get_data_set("pond", progress=False)
    assert folder == tmp_path / "cache" / "pond"
    assert names(folder) - {".download.lock"} == {"names.txt", "photos/1.jpg", "photos/2.jpg"}
    assert data_set_state("pond").ready
    count = len(shelf.requests)
    assert get_data_set("pond", progress=False) == folder
    assert len(shelf.requests) == count
    (folder / "photos" / "2.jpg").write_bytes(b"damaged")
    get_data_set("pond", force=True, progress=False)
    assert (folder / "photos" / "2.jpg").read_bytes() == b"2"


@pytest.mark.usefixtures("pond")
def test_the_read_only_folder_is_looked_into_first(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CST_DATA_DIR", str(tmp_path / "real"))
    for name in ("names.txt", "photos/1.jpg", "photos/2.jpg"):
        path = tmp_path / "real" / "pond" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert get_data_set("pond", progress=False) == tmp_path / "real" / "pond"
    assert shelf.requests == []


@pytest.mark.usefixtures("pond")
def test_an_archive_without_the_promised_files_is_said_to_be() -> None:
    with pytest.raises(DownloadError, match=r"pond came without photos/\*\.jpg"):
        get_data_set("pond", progress=False)
    assert data_set_state("pond").missing == ("photos/*.jpg",)


@pytest.mark.usefixtures("pond")
def test_a_damaged_archive_is_deleted_with_the_command_that_mends_it(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files["/ducks.zip"] = shelf.files["/ducks.zip"][:-30]
    with pytest.raises(DownloadError, match=r"ducks\.zip .*fetch it again with: cst data get pond"):
        get_data_set("pond", progress=False)
    assert names(tmp_path / "cache" / "pond") == {"names.txt", ".download.lock"}


def test_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected one of coco-captions.*got 'coco'.*cst data list"):
        get_data_set("coco")


@pytest.mark.usefixtures("pond")
def test_a_cache_that_cannot_be_written_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(PermissionError, match=r"cannot write in .*file/cache/pond.*set CST_CACHE_DIR"):
        get_data_set("pond", progress=False)


def test_every_entry_of_the_registry_is_complete() -> None:
    for state in list_data_sets():
        entry = state.entry
        assert entry.what
        assert entry.licence
        assert entry.leaves
        assert entry.sources
        assert entry.download > 1_000_000
        for source in entry.sources:
            assert all(url.startswith(("https://", "http://")) for url in source.urls)
            assert source.urls[0].startswith("https://"), f"{source.name}: the safe address comes first"
            digits = source.sha256 or source.md5 or "0" * 64
            assert all(digit in "0123456789abcdef" for digit in digits)


def test_the_registry_agrees_with_torchvision() -> None:
    from torchvision.datasets import CIFAR10
    from torchvision.models import get_model_weights

    archive = sources.CIFAR10.sources[0]
    assert (archive.name, archive.urls[0], archive.md5) == (CIFAR10.filename, CIFAR10.url, CIFAR10.tgz_md5)
    for name in ("resnet18", "resnet50", "mobilenet_v3_small", "vgg16"):
        urls = {weights.url for weights in get_model_weights(name)}
        assert DATA_SETS[f"backbone-{name}"].sources[0].urls[0] in urls
