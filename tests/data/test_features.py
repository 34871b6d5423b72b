from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from cs_transformers.data import features
from cs_transformers.data.backbones import Backbone, SceneEncoder, load_backbone
from cs_transformers.data.caption_files import write_caption_files
from cs_transformers.data.caption_json import CaptionedPhoto, caption_data
from cs_transformers.data.captions import load_coco_data
from cs_transformers.data.features import caption_photos, extract_features, fit_pca, write_features
from cs_transformers.data.photos import PhotoFolder
from cs_transformers.data.scene_files import write_scenes

SIZE, WIDTH, PLACES = 16, 6, 4


def network(seed: int = 0) -> Backbone:
    torch.manual_seed(seed)
    body = nn.Sequential(nn.Conv2d(3, WIDTH, kernel_size=8, stride=8), nn.Dropout(0.5))
    return Backbone("tiny", body, image_size=SIZE)


def pictures(count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, SIZE, SIZE), dtype=torch.uint8, generator=generator)


def read(folder: Path, name: str) -> np.ndarray:
    with h5py.File(folder / name) as file:
        return file["features"][:]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ------------------------------------------------------------------------------------------------------------- PCA

ROWS = np.random.RandomState(3).randn(40, 7) @ np.random.RandomState(4).randn(7, 7) + 100


def test_components_are_those_of_the_singular_value_decomposition() -> None:
    pca = fit_pca(np.array_split(ROWS, 5), width=3)
    _, values, vectors = np.linalg.svd(ROWS - ROWS.mean(axis=0))
    np.testing.assert_allclose(pca.mean, ROWS.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(pca.variances, values[:3] ** 2 / (len(ROWS) - 1), rtol=1e-9)
    signs = np.sign((pca.components * vectors[:3]).sum(axis=1))[:, None]
    np.testing.assert_allclose(pca.components, vectors[:3] * signs, atol=1e-9)


def test_the_largest_entry_of_a_component_is_positive() -> None:
    for rows in (ROWS, -ROWS):
        components = fit_pca([rows], width=5).components
        assert all(row[np.abs(row).argmax()] > 0 for row in components)


def test_cutting_the_rows_into_batches_changes_nothing() -> None:
    whole, cut = fit_pca([ROWS], width=4), fit_pca([ROWS[:1], ROWS[1:30], ROWS[30:]], width=4)
    np.testing.assert_allclose(cut.components, whole.components, atol=1e-9)


def test_all_components_keep_all_distances() -> None:
    reduced = fit_pca([ROWS], width=7).transform(ROWS)
    expected = np.linalg.norm(ROWS[:, None] - ROWS, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(reduced[:, None] - reduced, axis=-1), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("rows", "width"), [(ROWS, 8), (ROWS[:4], 4), (ROWS[:0], 1)])
def test_more_components_than_the_rows_can_show_are_refused(rows: np.ndarray, width: int) -> None:
    with pytest.raises(ValueError, match=r"fit_pca: width must be at most \d+, for \d+ rows of width \d, got"):
        fit_pca([rows] if len(rows) else [], width)


# ------------------------------------------------------------------------------------------------------ extraction


def test_batches_come_in_order_and_as_in_evaluation() -> None:
    backbone, images = network().train(), pictures(5)
    batches = list(extract_features(backbone, images, batch_size=2))
    assert backbone.training
    with torch.no_grad():
        pooled, grid = backbone.eval()(images)
    assert [len(batch[0]) for batch in batches] == [2, 2, 1]
    torch.testing.assert_close(torch.cat([batch[0] for batch in batches]), pooled)
    torch.testing.assert_close(torch.cat([batch[1] for batch in batches]), grid)
    assert not batches[0][0].is_inference()  # such a tensor could not enter a training step


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_give_the_same_batches(tmp_path: Path) -> None:
    for number, picture in enumerate(pictures(5)):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(tmp_path / f"{number}.png")
    photos = PhotoFolder(tmp_path, size=SIZE)
    alone = list(extract_features(network(), photos, batch_size=2))
    helped = list(extract_features(network(), photos, batch_size=2, workers=2))
    assert all(torch.equal(a, b) for one, two in zip(alone, helped, strict=True) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"workers": -1}])
def test_a_wrong_number_is_refused_at_the_call(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"extract_features: {next(iter(wrong))} must be"):
        extract_features(network(), pictures(2), **wrong)


# --------------------------------------------------------------------------------------------------------- writing


def test_files_hold_the_features_of_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SHARD", 4)
    photos = {"train": pictures(9), "val": pictures(5, seed=2)}
    written = write_features(tmp_path, network(), photos, dtype="float32", batch_size=3, progress=False)
    assert {path.name for path in written} == names(tmp_path)
    assert names(tmp_path) == {
        f"{split}2014_{kind}.h5" for split in photos for kind in ("vgg16_fc7", "vgg16_fc7_pca", "grid")
    }
    for split, images in photos.items():
        with torch.no_grad():
            pooled, grid = network().eval()(images)
        np.testing.assert_allclose(read(tmp_path, f"{split}2014_vgg16_fc7.h5"), pooled, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(read(tmp_path, f"{split}2014_vgg16_fc7_pca.h5"), pooled, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(read(tmp_path, f"{split}2014_grid.h5"), grid, rtol=1e-5, atol=1e-6)
    with h5py.File(written[0]) as file:
        assert dict(file.attrs) | {"weights": ""} == {"backbone": "tiny", "image_size": SIZE, "weights": ""}


def test_both_splits_are_reduced_along_the_components_of_the_training_split(tmp_path: Path) -> None:
    photos = {"train": pictures(30), "val": pictures(5, seed=2)}
    write_features(tmp_path, network(), photos, pca=2, grid_pca=3, dtype="float32", progress=False)
    for whole, reduced, width in (("{}2014_vgg16_fc7.h5", "{}2014_vgg16_fc7_pca.h5", 2),):
        train, val = (read(tmp_path, whole.format(split)).astype(np.float64) for split in photos)
        _, _, vectors = np.linalg.svd(train - train.mean(axis=0))
        for split, rows in (("train", train), ("val", val)):
            expected = (rows - train.mean(axis=0)) @ vectors[:width].T
            got = read(tmp_path, reduced.format(split))
            assert got.shape == (len(rows), width)
            np.testing.assert_allclose(np.abs(got), np.abs(expected), rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        grid = network().eval()(photos["val"])[1].numpy()
    with h5py.File(tmp_path / "val2014_grid.h5") as file:
        assert file["features"].shape == (5, PLACES, 3)
        expected = (grid - file["pca_mean"][:]) @ file["pca_components"][:].T
        np.testing.assert_allclose(file["features"][:], expected, rtol=1e-3, atol=1e-4)


def test_vectors_narrower_than_asked_and_few_photos_stay_as_they_are(tmp_path: Path) -> None:
    write_features(tmp_path, network(), {"train": pictures(3)}, pca=5, grid_pca=None, progress=False)
    assert read(tmp_path, "train2014_vgg16_fc7_pca.h5").shape == (3, WIDTH)
    assert read(tmp_path, "train2014_grid.h5").shape == (3, PLACES, WIDTH)
    assert read(tmp_path, "train2014_grid.h5").dtype == np.float16


def test_one_kind_leaves_the_files_of_the_other_alone(tmp_path: Path) -> None:
    write_features(tmp_path, network(), {"train": pictures(3)}, kinds=["grid"], progress=False)
    assert names(tmp_path) == {"train2014_grid.h5"}
    write_features(tmp_path, network(), {"train": pictures(3)}, kinds=["global"], progress=False)
    assert len(names(tmp_path)) == 3


class Counting(Backbone):
    """Counts the pictures it sees, and fails at one of them."""

    seen, fails_at = 0, None

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        type(self).seen += len(images)
        if self.fails_at is not None and self.seen > self.fails_at:
            raise KeyboardInterrupt
        return super().forward(images)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "SHARD", 4)
    photos = {"train": pictures(14), "val": pictures(5, seed=2)}
    torch.manual_seed(0)
    backbone = Counting("tiny", nn.Conv2d(3, WIDTH, 8, 8), image_size=SIZE)
    write_features(tmp_path / "once", backbone, photos, pca=3, batch_size=2, progress=False)
    monkeypatch.setattr(Counting, "seen", 0)
    monkeypatch.setattr(Counting, "fails_at", 10)
    with pytest.raises(KeyboardInterrupt):
        write_features(tmp_path / "twice", backbone, photos, pca=3, batch_size=2, progress=False)
    assert not list((tmp_path / "twice").glob("*.h5"))
    monkeypatch.setattr(Counting, "seen", 0)
    monkeypatch.setattr(Counting, "fails_at", None)
    write_features(tmp_path / "twice", backbone, photos, pca=3, batch_size=2, progress=False)
    assert Counting.seen == 19 - 8  # two shards of four were there
    assert names(tmp_path / "once") == names(tmp_path / "twice")
    for name in names(tmp_path / "once"):
        assert np.array_equal(read(tmp_path / "once", name), read(tmp_path / "twice", name)), name


def test_a_run_with_other_weights_does_not_take_over_what_is_left(
    tmp_path: Path,
) -> None:
    photos = {"train": pictures(4)}
    kept = features._Shards(tmp_path, network(0), photos, ("global", "grid"), "float16")
    kept.compute(network(0), {}, False)
    assert kept.place.is_dir()
    write_features(tmp_path, network(1), photos, progress=False)
    with torch.no_grad():
        expected = network(1).eval()(photos["train"])[0].half()
    np.testing.assert_allclose(read(tmp_path, "train2014_vgg16_fc7.h5"), expected, rtol=1e-2)
    assert not kept.place.exists()


def test_features_that_are_there_are_not_replaced_unasked(tmp_path: Path) -> None:
    photos = {"train": pictures(3)}
    write_features(tmp_path, network(), photos, progress=False)
    before = read(tmp_path, "train2014_grid.h5")
    with pytest.raises(FileExistsError, match=r"has features already \(train2014_vgg16_fc7\.h5.*overwrite=True"):
        write_features(tmp_path, network(1), photos, progress=False)
    assert np.array_equal(read(tmp_path, "train2014_grid.h5"), before)
    write_features(tmp_path, network(1), photos, overwrite=True, progress=False)
    assert not np.array_equal(read(tmp_path, "train2014_grid.h5"), before)


def test_numbers_too_large_for_the_dtype_are_not_stored_as_infinity(tmp_path: Path) -> None:
    backbone = network()
    with torch.no_grad():
        backbone.body[0].weight.fill_(0.0)
        backbone.body[0].bias.fill_(1e5)
    with pytest.raises(
        ValueError, match="dtype must be wide enough for the features, got float16; pass dtype='float32'"
    ):
        write_features(tmp_path, backbone, {"train": pictures(3)}, progress=False)
    write_features(tmp_path, backbone, {"train": pictures(3)}, dtype="float32", progress=False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kinds": ["global", "patch"]}, "kinds must be one of 'global', 'grid', got 'patch'"),
        ({"dtype": "float8"}, "dtype must be one of"),
        ({"pca": 0}, "pca must be"),
        ({"grid_pca": 0}, "grid_pca must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"photos": {"val": pictures(2)}}, "photos must be with the split 'train'"),
        ({"photos": {"train": pictures(2), "val": pictures(0)}}, "photos must be at least one of val"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(wrong: dict, message: str, tmp_path: Path) -> None:
    arguments = {"photos": {"train": pictures(2)}} | wrong
    with pytest.raises(ValueError, match=message):
        write_features(tmp_path / "new", network(), **arguments)
    assert not (tmp_path / "new").exists()


# -------------------------------------------------------------------------------------------- with a captions data set


@pytest.fixture
def captioned(tmp_path: Path) -> Path:
    """Captions and photos on disk, in the layout of CS231n but without features."""
    splits = {}
    for split, count in (("train", 5), ("val", 3)):
        splits[split] = []
        (tmp_path / "photos" / f"{split}2017").mkdir(parents=True)
        for number, picture in enumerate(pictures(count, seed=len(split))):
            path = tmp_path / "photos" / f"{split}2017" / f"{number}.png"
            Image.fromarray(picture.permute(1, 2, 0).numpy()).save(path)
            splits[split].append(CaptionedPhoto(path.name, str(path), number, ("a dog", f"a cat number {number}")))
    write_caption_files(tmp_path / "set", caption_data(splits, min_count=1))
    return tmp_path / "set"


def test_written_features_are_what_the_loader_of_captions_reads(captioned: Path) -> None:
    write_features(captioned, network(), pca=2, grid_pca=None, dtype="float32", progress=False)
    data = load_coco_data(captioned, features="grid")
    assert data["train_features"].shape == (5, PLACES, WIDTH)
    assert load_coco_data(captioned)["val_features"].shape == (3, 2)
    with torch.no_grad():
        expected = network().eval()(pictures(3, seed=len("val")))[0]
    np.testing.assert_allclose(
        load_coco_data(captioned, pca_features=False)["val_features"], expected, rtol=1e-5, atol=1e-6
    )


def test_photos_are_found_by_name_in_another_folder(captioned: Path) -> None:
    moved = captioned.parent / "moved"
    (captioned.parent / "photos").rename(moved)
    with pytest.raises(FileNotFoundError, match=r"5 of 5 photos are not in"):
        caption_photos(captioned, size=SIZE)
    found = caption_photos(captioned, moved, size=SIZE)
    assert found["val"].names == [f"val2017/{number}.png" for number in range(3)]
    assert torch.equal(torch.stack([found["train"][row] for row in range(5)]), pictures(5, seed=len("train")))


def test_pictures_and_captions_must_be_as_many(captioned: Path) -> None:
    with pytest.raises(
        ValueError, match=r"photos must be 5 pictures of train, one for each line of train2014_urls\.txt, got 4"
    ):
        write_features(captioned, network(), {"train": pictures(4)})


def test_a_folder_without_lists_is_explained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no list of the pictures of train \(train2014_urls\.txt\)"):
        write_features(tmp_path / "nowhere", network())
    assert not (tmp_path / "nowhere").exists()


def test_scenes_get_features_from_their_encoder(tmp_path: Path) -> None:
    folder = write_scenes(tmp_path / "scenes", train=6, val=4)
    torch.manual_seed(0)
    encoder = SceneEncoder(16, 24, width=8)
    write_features(folder, encoder, overwrite=True, progress=False)
    data = load_coco_data(folder, features="grid")
    assert data["train_features"].shape == (6, 64, 16)
    assert load_coco_data(folder)["val_features"].shape == (4, 24)
    with h5py.File(folder / "val2014_images.h5") as file:
        images = torch.from_numpy(file["images"][:]).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = encoder.eval()(images)[1]
    np.testing.assert_allclose(data["val_features"], expected, rtol=2e-3, atol=2e-3)


# ------------------------------------------------------------------------------------------------------ real photos


def test_efficientnet_gives_the_published_features_of_flickr_photos(data_dir: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    folder = data_dir / "flickr8k_1000"
    if not folder.is_dir():
        pytest.skip("real data: no flickr8k_1000 in CST_DATA_DIR")
    listed = (folder / "h5" / "val_images.txt").read_text(encoding="utf-8").split()[:8]
    pooled, grid = next(
        extract_features(load_backbone(), PhotoFolder(folder / "images", listed, size=192), batch_size=8)
    )
    with h5py.File(folder / "h5" / "features.h5") as file:
        stored = torch.from_numpy(file["val_features"][:8]).float()
        stored_grid = torch.from_numpy(file["val_grid_pca128"][:8]).float()
        mean = torch.from_numpy(file["grid_pca_mean"][:])
    assert torch.nn.functional.cosine_similarity(pooled, stored).min() > 0.9999
    torch.testing.assert_close(pooled, stored, rtol=2e-3, atol=2e-3)
    assert grid.shape == (8, 36, 1280)
    # The stored grids are reduced to 128 components of unknown axes, but the angles between places survive that.
    centred = grid - mean
    angles = torch.einsum("nsd,ntd->nst", centred, centred).flatten()
    stored_angles = torch.einsum("nsd,ntd->nst", stored_grid, stored_grid).flatten()
    assert torch.corrcoef(torch.stack([angles, stored_angles]))[0, 1] > 0.95
