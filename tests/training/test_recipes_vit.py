"""The recipes behind `cst train vit`: data in, trained classifier out, an interruption in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cs_transformers.data.images import load_images
from cs_transformers.training.recipes_vit import shapes_config, train_vit


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes that differ in brightness, twenty photos each."""
    rng = np.random.RandomState(0)
    for name, level in (("bright", 180), ("dark", 60)):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(20):
            pixels = np.clip(level + rng.randn(16, 16, 3) * 20, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "photos"


def test_a_folder_of_photos_is_learnt(photos: Path) -> None:
    config = shapes_config(steps=40, batch_size=8)
    trained = train_vit(photos, config, size=16)
    assert trained.classes == ("bright", "dark")
    images, labels, _ = load_images(photos, "val", size=16)
    assert torch.equal(trained.predict(images), labels)
    assert trained.history.best("val_accuracy")["val_accuracy"] == 1.0


def test_the_best_accuracy_on_validation_images_chooses_the_weights() -> None:
    trained = train_vit("scenes", shapes_config(steps=30, evaluate_every=10))
    images, labels, _ = load_images("scenes", "val")
    right = (trained.predict(images) == labels).double().mean().item()
    assert right == pytest.approx(max(trained.history["val_accuracy"]), abs=1e-6)
    assert len(trained.history.rows) == 3


def test_a_training_goes_on_where_it_stopped(photos: Path, tmp_path: Path) -> None:
    config = shapes_config(steps=9, batch_size=8, checkpoint_every=2)
    whole = train_vit(photos, config, size=16)

    def stop(history) -> None:
        if history.rows[-1]["step"] >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_vit(photos, config, size=16, folder=tmp_path / "run", on_record=stop)
    resumed = train_vit(photos, config, size=16, folder=tmp_path / "run", resume=True)
    assert whole.history.losses == resumed.history.losses
    pairs = zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_cifar_trains_with_its_own_recipe_and_a_validation_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def few(data, split, *, size):
        asked.append((data, split))
        count = {"train": 64, "val": 16}[split]
        return load_images("scenes", split, count=count, size=size)

    monkeypatch.setattr("cs_transformers.training.recipes_vit.load_images", few)
    from cs_transformers.training.vit_cifar import cifar_config

    seen = []
    trained = train_vit(
        "cifar10-exact", cifar_config(epochs=1), on_record=lambda history: seen.append(history.rows[-1]["step"])
    )
    assert seen == [2]
    assert asked == [("cifar10-exact", "train"), ("cifar10-exact", "val")]
    assert len(trained.history.losses) == 2
    assert "val_accuracy" in trained.history.columns
    assert trained.model.patch_embed.patch_size == 4


def test_data_that_does_not_exist_is_refused_before_anything_is_built() -> None:
    with pytest.raises(ValueError, match="data must be a folder or one of scenes, cifar10"):
        train_vit("nothing")


@pytest.mark.learning
def test_scenes_are_named_right_by_the_recipe() -> None:
    trained = train_vit("scenes")
    images, labels, _ = load_images("scenes", "test")
    assert (trained.predict(images) == labels).double().mean().item() >= 0.97
