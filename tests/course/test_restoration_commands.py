"""cst train restore and cst restore, as a user calls them: right results, or a clear error and no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.course import restoration as commands
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.restoration import ImageRestorationTransformer, bicubic
from cs_transformers.training import recipes_restoration as recipes
from cs_transformers.training.checkpoints import save_checkpoint
from cs_transformers.training.history import History

SIZES = {"img_size": 12, "patch_size": 4, "features": 2, "num_heads": 2, "num_layers": 1, "dim_feedforward": 16}
TASKS = ("x2", "x3", "denoise30")
RECIPE = recipes.RestorationRecipe


def tiny(**changes: object) -> RECIPE:
    return RECIPE(**{"tasks": TASKS, "train_images": 12, **SIZES, **changes})


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained restorer: it enlarges as bicubic does, so that right results are known."""
    folder = tmp_path_factory.mktemp("weights")
    recipes.TrainedRestorer(tiny().build(), History(), tiny()).save(folder)
    return folder


def picture(height: int, width: int) -> np.ndarray:
    return np.random.RandomState(0).randint(60, 200, (height, width, 3), dtype=np.uint8)


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, [str(one) for one in arguments], catch_exceptions=False)
    return result.exit_code, result.output


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 3), (12, 12), (13, 40), (61, 7)])
@pytest.mark.parametrize(("task", "scale"), [("x2", 2), ("x3", 3), ("denoise30", 1)])
def test_a_photo_of_any_size_is_restored(
    tmp_path: Path, weights: Path, task: str, scale: int, height: int, width: int
) -> None:
    Image.fromarray(picture(height, width)).save(tmp_path / "in.png")
    code, text = call("restore", tmp_path / "in.png", "--task", task, "-o", tmp_path / "out.png", "--weights", weights)
    assert code == 0
    assert f"{width} x {height} pixels became {scale * width} x {scale * height}" in text.replace("\n", " ")
    result = np.asarray(Image.open(tmp_path / "out.png"))
    x = torch.from_numpy(picture(height, width)).permute(2, 0, 1)[None].float() / 255
    expected = (bicubic(x, (scale * height, scale * width))[0].clamp(0, 1) * 255).round().byte().permute(1, 2, 0)
    assert np.abs(result.astype(int) - expected.numpy().astype(int)).max() <= 1


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "I;16", "P", "1", "CMYK"])
def test_a_photo_of_any_kind_is_restored(tmp_path: Path, weights: Path, mode: str) -> None:
    grey = Image.fromarray(picture(9, 14)[..., 0])
    image = Image.fromarray(picture(9, 14)[..., 0].astype(np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    image.save(tmp_path / "in.tif")
    commands.restore(tmp_path / "in.tif", tmp_path / "out.tif", "x2", weights)
    with Image.open(tmp_path / "out.tif") as result:
        assert result.size == (28, 18)
        assert result.mode == {"P": "RGB", "1": "L", "CMYK": "RGB"}.get(mode, mode)


def test_a_photo_taken_sideways_comes_out_upright(tmp_path: Path, weights: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture(9, 14)).save(tmp_path / "in.jpg", exif=exif)
    done = commands.restore(tmp_path / "in.jpg", tmp_path / "out.png", "x2", weights)
    assert (done.before, done.after) == ((9, 14), (18, 28))
    with Image.open(tmp_path / "out.png") as result:
        assert result.size == (18, 28)


def test_opacity_is_enlarged_with_the_photo(tmp_path: Path, weights: Path) -> None:
    image = Image.fromarray(picture(9, 14))
    image.putalpha(77)
    image.save(tmp_path / "in.png")
    commands.restore(tmp_path / "in.png", tmp_path / "out.png", "x3", weights)
    assert (np.asarray(Image.open(tmp_path / "out.png"))[..., 3] == 77).all()


def broken(folder: Path) -> Path:
    Image.fromarray(picture(40, 40)).save(folder / "in.png")
    whole = (folder / "in.png").read_bytes()
    (folder / "in.png").write_bytes(whole[: len(whole) // 2])
    return folder / "in.png"


def test_what_is_wrong_is_said_and_nothing_is_written(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, out = tmp_path / "good.png", tmp_path / "out.png"
    Image.fromarray(picture(9, 14)).save(good)
    clear = Image.fromarray(picture(9, 14))
    clear.putalpha(9)
    clear.save(tmp_path / "clear.png")
    cases = [
        (ValueError, "task must be one of 'x2', 'x3', 'denoise30'", (good, out, "x4", weights)),
        (FileNotFoundError, "expected trained weights at", (good, out, "x2", tmp_path / "none")),
        (FileNotFoundError, "expected a photo at", (tmp_path / "none.png", out, "x2", weights)),
        (DamagedFileError, "cannot be read as a picture", (broken(tmp_path), out, "x2", weights)),
        (ValueError, "got .xyz", (good, tmp_path / "out.xyz", "x2", weights)),
        (ValueError, "of a format with transparency", (tmp_path / "clear.png", tmp_path / "out.jpg", "x2", weights)),
        (ValueError, "another file than the photo", (good, good, "x2", weights)),
    ]
    before = sorted(path.name for path in tmp_path.iterdir())
    for error, message, arguments in cases:
        with pytest.raises(error, match=message):
            commands.restore(*arguments)
    monkeypatch.setattr(commands, "MAX_PIXELS", 4 * 9 * 14 - 1)
    with pytest.raises(ValueError, match="of at most 125 pixels"):
        commands.restore(good, out, "x2", weights)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_weights_that_are_something_else_are_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "restorer.pt", {"step": 3})
    with pytest.raises(ValueError, match=r"must be the file of a restorer, got .*restorer.pt, which holds step; name"):
        recipes.load_restorer(tmp_path)
    (tmp_path / "restorer.pt").write_bytes(b"half")
    with pytest.raises(ValueError, match="damaged or not a checkpoint"):
        recipes.load_restorer(tmp_path / "restorer.pt")


def test_a_saved_restorer_is_the_same_model(tmp_path: Path) -> None:
    trained = recipes.TrainedRestorer(tiny().build(), History(), tiny())
    torch.nn.init.normal_(trained.model.tails["x2"][-1].weight)
    loaded = recipes.load_restorer(trained.save(tmp_path))
    assert isinstance(loaded, ImageRestorationTransformer)
    assert not loaded.training
    x = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded(x, "x2"), trained.model(x, "x2"))


def test_training_and_going_on_with_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "RestorationRecipe", lambda **given: tiny(fit=given["fit"]))
    monkeypatch.setattr(recipes, "VAL_IMAGES", 4)
    monkeypatch.setattr(commands, "TEST_IMAGES", 4)
    many, one = tmp_path / "many", tmp_path / "one"
    code, text = call("train", "restore", "--tasks", "x2,denoise30", "--steps", 3, "--out", many)
    assert code == 0
    assert "x2, PSNR of textures never seen: " in text
    assert "denoise30, PSNR of textures never seen: " in text
    assert {"restorer.pt", "history.csv", "history.png", "last.pt", "best.pt"} <= {p.name for p in many.iterdir()}
    arguments = ("train", "restore", "--start", many, "--tasks", "denoise30", "--steps", 2, "--out", one)
    code, text = call(*arguments)
    assert code == 0
    assert "x2" not in text
    assert recipes.load_restorer(one).tasks == ("x2", "denoise30")
    Image.fromarray(picture(20, 15)).save(tmp_path / "in.png")
    code, _ = call("restore", tmp_path / "in.png", "--task", "x2", "-o", tmp_path / "out.png", "--weights", one)
    assert code == 0


def test_going_on_needs_one_task_and_another_folder(tmp_path: Path, weights: Path) -> None:
    for tasks in (None, ("x2", "x3")):
        with pytest.raises(ValueError, match="one task where it starts from trained weights"):
            commands.train("textures", tmp_path, tasks=tasks, start=weights)
    with pytest.raises(ValueError, match="another one than that of start"):
        commands.train("textures", weights, tasks=("x2",), start=weights)
