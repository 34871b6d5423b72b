"""What `cst train detect` and `cst detect` do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.course import detection
from cs_transformers.data import detection as data
from cs_transformers.data.detection import scene_boxes
from cs_transformers.training import recipes_detection as recipes


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(cli.app, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few scenes and a small model, so that a training takes a second."""
    whole = recipes.scenes_recipe
    sizes = {"widths": (4, 8), "strides": (2, 2), "width": 16, "num_heads": 2, "dim_feedforward": 16}
    changed = {"batch_size": 4, "evaluate_every": 2}
    monkeypatch.setattr(data, "SCENE_COUNTS", {"train": 8, "val": 4, "test": 4})
    monkeypatch.setattr(
        recipes, "scenes_recipe", lambda model="detr", **more: replace(whole(model, **changed, **more), **sizes)
    )


@pytest.mark.parametrize("model", recipes.MODELS)
@pytest.mark.usefixtures("small")
def test_train_then_detect(model: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, text = call("train", "detect", "--model", model, "--steps", "2", "--out", str(run))
    assert code == 0
    assert "AP50 (test): " in text
    assert {"detector.pt", "history.csv", "history.png", "last.pt"} <= {path.name for path in run.iterdir()}
    photo = tmp_path / "photo.png"
    Image.fromarray(scene_boxes(1, seed=9).read(0).numpy().transpose(1, 2, 0)).save(photo)
    drawn = tmp_path / "new" / "out.png"
    code, text = call("detect", str(photo), "-o", str(drawn), "--weights", str(run), "--threshold", "0")
    assert code == 0
    lines = text.splitlines()
    assert lines[0].split()[0] in recipes.load_detector(run).classes
    assert " at (" in lines[0]
    assert lines[-1] == f"drawn in {drawn}"
    with Image.open(drawn) as picture:
        assert picture.size[0] > 100
    code, text = call("detect", str(photo), "-o", str(drawn), "--weights", str(run), "--threshold", "1")
    assert "nothing with a score of 1.0 or more" in text


def test_odd_options_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threshold must be from 0 to 1"):
        detection.detect(tmp_path / "a.jpg", tmp_path / "b.png", weights=tmp_path, threshold=2.0)
    with pytest.raises(ValueError, match=r"output must be a file that ends in \.png"):
        detection.detect(tmp_path / "a.jpg", tmp_path / "b.txt", weights=tmp_path)
    with pytest.raises(FileNotFoundError, match="expected the photo"):
        detection.detect(tmp_path / "a.jpg", tmp_path / "b.png", weights=tmp_path)
    with pytest.raises(ValueError, match="model must be one of"):
        detection.train_detector("scenes", "yolo", "small", tmp_path)
