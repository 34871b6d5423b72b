"""The recipes behind `cst train detect`: data in, detector out, an interruption in between, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cs_transformers.data.detection import scene_boxes
from cs_transformers.data.pyramids import NetworkPyramid
from cs_transformers.training import recipes_detection as recipes
from cs_transformers.training.checkpoints import save_checkpoint
from cs_transformers.training.recipes_detection import (
    DetectionRecipe,
    detection_optimizers,
    load_detector,
    photos_recipe,
    scenes_recipe,
    train_detector,
)

SMALL = {"widths": (4, 8), "strides": (2, 2), "width": 16, "num_heads": 2, "dim_feedforward": 16, "num_queries": 4}


def tiny(model: str = "detr", **changes: object) -> DetectionRecipe:
    recipe = scenes_recipe(model, **{"steps": 6, "batch_size": 4, "evaluate_every": 3, **changes})
    return replace(recipe, **SMALL, num_encoder_layers=1, num_decoder_layers=2)


def train(recipe: DetectionRecipe, **options: object) -> recipes.TrainedDetector:
    return train_detector("scenes", recipe, train=scene_boxes(16, seed=1), val=scene_boxes(5, seed=2), **options)


@pytest.mark.parametrize("model", recipes.MODELS)
def test_a_training_goes_on_where_it_stopped_and_the_detector_can_be_loaded(model: str, tmp_path: Path) -> None:
    recipe = replace(tiny(model, checkpoint_every=2, ema_decay=0.9), augment=True)
    whole = train(recipe)

    def stop(history) -> None:
        if history.rows[-1]["step"] >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, folder=tmp_path, on_record=stop)
    resumed = train(recipe, folder=tmp_path, resume=True)
    assert whole.history.losses == resumed.history.losses
    loaded, pictures = load_detector(tmp_path), [scene_boxes(1, seed=5).read(0)]
    assert loaded.classes == ("circle", "square", "triangle", "cross", "diamond")
    for name, value in whole.find(pictures)[0].items():
        torch.testing.assert_close(loaded.find(pictures)[0][name], value, rtol=0, atol=0)


def test_the_history_holds_losses_and_precisions() -> None:
    row = train(tiny()).history.rows[-1]
    assert {"train_loss", "val_loss", "train_loss_giou", "val_class_error", "ap", "ap50", "ap75"} <= set(row)


def test_the_best_weights_are_kept_where_the_recipe_says_so() -> None:
    trained = train(tiny(keep_best=True, steps=9))
    best = max(row["ap50"] for row in trained.history.rows)
    assert trained.score(scene_boxes(5, seed=2))["ap50"] == pytest.approx(best, abs=1e-6)


def test_pictures_of_any_size_give_boxes_in_their_own_pixels() -> None:
    trained = train(replace(tiny(), side=32))
    images = [torch.zeros(3, 40, 90, dtype=torch.uint8), torch.zeros(3, 64, 32, dtype=torch.uint8)]
    for image, found in zip(images, trained.find(images), strict=True):
        height, width = image.shape[1:]
        middles = (found["boxes"][:, :2] + found["boxes"][:, 2:]) / 2
        assert (middles <= torch.tensor([width, height])).all()
        assert len(found["scores"]) == 4


@pytest.mark.parametrize("model", recipes.MODELS)
def test_a_detector_of_scenes_looks_at_photos_in_the_size_it_knows(model: str) -> None:
    detector, seen = recipes.TrainedDetector(tiny(model).build(5), scene_boxes(1, seed=1).classes, tiny(model)), []
    detector.model.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape[2:])))
    detector.find([torch.zeros(3, 300, 450, dtype=torch.uint8)])
    assert seen == [(64, 96)]


def test_other_classes_are_refused_before_training_and_when_scoring() -> None:
    other = scene_boxes(5, seed=2)
    other.classes = tuple(reversed(other.classes))
    message = r"the classes must be those of training, \['circle', .* got \['diamond', .*same categories"
    with pytest.raises(ValueError, match=f"train_detector: {message}"):
        train_detector("scenes", tiny(), train=scene_boxes(16, seed=1), val=other)
    detector = recipes.TrainedDetector(tiny().build(5), scene_boxes(1, seed=1).classes, tiny())
    with pytest.raises(ValueError, match=f"score: {message}"):
        detector.score(other)


def test_finding_in_a_batch_is_finding_one_by_one() -> None:
    trained = train(tiny())
    images = [scene_boxes(3, seed=7).read(index) for index in range(3)]
    together = trained.find(images, batch_size=2)
    for image, found in zip(images, together, strict=True):
        torch.testing.assert_close(trained.find([image])[0]["boxes"], found["boxes"], rtol=1e-4, atol=1e-3)


def test_every_parameter_has_one_optimizer_and_slow_ones_are_slow() -> None:
    model = tiny("deformable").build(5)
    pairs = detection_optimizers(model, tiny("deformable").fit, 16)
    groups = [group for optimizer, _ in pairs for group in optimizer.param_groups]
    taken = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(taken) == sorted(id(parameter) for parameter in model.parameters())
    (slow,) = [
        group for group in groups if group["initial_lr" if "initial_lr" in group else "lr"] == pytest.approx(2e-4)
    ]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(parameter)].split(".")[-2] for parameter in slow["params"]} == {
        "sampling_offsets",
        "reference_points",
    }


def test_a_pretrained_backbone_moves_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [torch.nn.Conv2d(3, 4, 2, stride=2), torch.nn.Conv2d(4, 6, 2, stride=2)]
    monkeypatch.setattr(recipes, "load_pyramid", lambda _name, levels, **_: NetworkPyramid(stages, levels))
    model = replace(tiny(), backbone="resnet18").build(5)
    (_, (adam, _)) = detection_optimizers(model, tiny().fit, 16)
    slow = [group for group in adam.param_groups if group["lr"] == pytest.approx(2e-4)]
    assert {id(one) for group in slow for one in group["params"]} == {id(one) for one in model.backbone.parameters()}


def test_a_detector_with_a_pretrained_backbone_needs_no_weights_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    recipe = replace(tiny("deformable"), backbone="mobilenet_v3_small")
    with pytest.raises(FileNotFoundError, match="cst data get backbone-mobilenet_v3_small"):
        recipe.build(5)
    made = recipes.TrainedDetector(recipe.build(5, empty=True), scene_boxes(1, seed=1).classes, recipe)
    loaded = load_detector(made.save(tmp_path / "detector.pt"))
    for name, value in made.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value), name


def test_photos_have_a_recipe_that_scales_and_augments() -> None:
    recipe = photos_recipe(steps=5)
    assert (recipe.model, recipe.side, recipe.augment, recipe.fit.steps) == ("deformable", 240, True, 5)
    model = recipe.build(3)
    assert len(model(torch.rand(1, 3, 64, 96))["aux_outputs"]) == 1
    assert photos_recipe("detr").build(3)(torch.rand(1, 3, 64, 96))["pred_logits"].shape == (1, 60, 4)


def test_grey_levels_as_floats_are_refused_and_fractions_are_read_like_bytes() -> None:
    detector = recipes.TrainedDetector(tiny().build(2).eval(), ("a", "b"), tiny())
    picture = torch.randint(256, (3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"images must be of pixels from 0 to 1, got values from 0 to 255; divide"):
        detector.find([picture.float()])
    found = [detector.find([one])[0]["boxes"] for one in (picture, picture.float() / 255)]
    torch.testing.assert_close(*found)


def test_odd_names_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model must be one of 'detr', 'deformable'"):
        DetectionRecipe(model="yolo")
    with pytest.raises(FileNotFoundError, match="Train one: cst train detect"):
        load_detector(tmp_path)
    save_checkpoint(tmp_path / "other.pt", {"step": 1})
    with pytest.raises(ValueError, match="path must be the file of a detector"):
        load_detector(tmp_path / "other.pt")


def two_stages(**changes: object) -> DetectionRecipe:
    return replace(tiny("deformable", **changes), refine=True, two_stage=True, num_levels=2)


def test_a_detector_of_two_stages_is_trained_stored_and_used(tmp_path: Path) -> None:
    trained = train(two_stages(steps=2, evaluate_every=2), folder=tmp_path)
    assert trained.history.rows[-1]["val_loss"] > 0
    pictures, loaded = [scene_boxes(1, seed=5).read(0)], load_detector(tmp_path)
    assert loaded.recipe.two_stage
    assert torch.equal(loaded.find(pictures)[0]["boxes"], trained.find(pictures)[0]["boxes"])


@pytest.mark.learning
def test_a_few_steps_lower_what_both_stages_lose() -> None:
    torch.manual_seed(0)
    recipe, data = two_stages(), scene_boxes(8, seed=1)
    model, batch = recipe.build(len(data.classes)).train(), data.batch(torch.arange(8))
    criterion, optimizer = recipe.criterion(len(data.classes)), torch.optim.AdamW(model.parameters(), lr=2e-3)
    course = []
    for _ in range(40):
        losses = criterion(model(batch["images"], batch["pixel_mask"]), batch["targets"])
        course.append([losses[name].item() for name in ("loss", "loss_bbox", "loss_ce_enc", "loss_bbox_enc")])
        optimizer.zero_grad()
        losses["loss"].backward()
        optimizer.step()
    assert all(last < 0.8 * first for first, last in zip(course[0], course[-1], strict=True))


@pytest.mark.learning
def test_a_deformable_detector_learns_shapes() -> None:
    """A fifth of the recipe's updates: most shapes are found already."""
    trained = train_detector(
        "scenes", scenes_recipe("deformable", steps=160), train=scene_boxes(2000, seed=1), val=scene_boxes(8, seed=2)
    )
    assert trained.score(scene_boxes(100, seed=3))["ap50"] >= 0.6


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize(("model", "steps", "ap50", "ap75"), [("detr", 1200, 0.9, 0.7), ("deformable", 800, 0.8, 0.7)])
def test_the_whole_recipe_reaches_its_goal(model: str, steps: int, ap50: float, ap75: float) -> None:
    trained = train_detector("scenes", scenes_recipe(model, steps=steps, evaluate_every=steps))
    figures = trained.score(scene_boxes(200, seed=2_000_003))
    assert figures["ap50"] >= ap50
    assert figures["ap75"] >= ap75
