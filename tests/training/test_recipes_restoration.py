"""Recipes of restoration: what a batch becomes, what a loss says, that a resumed run is the same, that it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from cs_transformers.data.restoration_sets import PhotoPair
from cs_transformers.data.textures import make_textures
from cs_transformers.restoration import TASKS, ImageRestorationTransformer, bicubic, contrastive_loss
from cs_transformers.training import recipes_restoration as recipes
from cs_transformers.training import recipes_texture
from cs_transformers.training.recipes_restoration import (
    Damage,
    RestorationRecipe,
    finetune_restorer,
    load_good_images,
    measure_gains,
    restoration_loss,
    restoration_recipe,
    score_photos,
    train_restorer,
)
from cs_transformers.training.recipes_texture import (
    measure_references,
    small_reference_good,
    texture_loss,
    texture_recipe,
    train_texture,
)

SIZES = {"img_size": 12, "patch_size": 4, "features": 2, "num_heads": 2, "num_layers": 1, "dim_feedforward": 16}


def tiny(tasks: tuple[str, ...] = ("x2", "denoise30"), **settings: object) -> RestorationRecipe:
    base = restoration_recipe(tasks, **{"steps": 4, "evaluate_every": 2, "batch_size": 3, **settings})
    return replace(base, train_images=10, **SIZES)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- what a batch becomes


def test_every_task_is_drawn_and_has_its_sizes() -> None:
    images, damage = make_textures(3, 48, 1), Damage(("x2", "x4", "derain"), 12)
    sizes = {"x2": 24, "x4": 48, "derain": 12}
    drawn = [damage((images,), generator(seed)) for seed in range(30)]
    assert {task for _, _, task in drawn} == set(sizes)
    for damaged, good, task in drawn:
        assert damaged.shape == (3, 3, 12, 12)
        assert good.shape == (3, 3, sizes[task], sizes[task])


def test_good_and_damaged_images_stay_together_however_they_are_turned() -> None:
    images, damage = make_textures(2, 24, 1), Damage(("x2",), 12)
    turned = set()
    for seed in range(40):
        damaged, good, _ = damage((images,), generator(seed))
        torch.testing.assert_close(damaged, bicubic(good, (12, 12)).clamp(0, 1), rtol=0, atol=1e-6)
        turned.add(tuple(good[0, 0].flatten().tolist()))
    assert len(turned) == 8  # four turns, mirrored or not


def test_damage_is_a_function_of_the_generator() -> None:
    images, damage = make_textures(2, 24, 1), Damage(("denoise30", "derain"), 12)
    one, other = damage((images,), generator(3)), damage((images,), generator(3))
    assert one[2] == other[2]
    assert torch.equal(one[0], other[0])


# --- losses


def test_the_loss_is_the_absolute_error_plus_the_weighted_contrastive_loss() -> None:
    model = tiny().build().double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    damaged, good, task = Damage(("x2",), 12)((make_textures(3, 24, 1),), generator())
    batch = (damaged.double(), good.double(), task)
    restored, tokens = model(batch[0], "x2", need_tokens=True)
    total, metrics = restoration_loss(0.25)(model, batch)
    expected = (restored - batch[1]).abs().mean() + 0.25 * contrastive_loss(tokens)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=0)
    assert metrics["psnr"].ndim == 0


def test_one_image_has_no_other_to_compare_with() -> None:
    batch = Damage(("x2",), 12)((make_textures(1, 24, 1),), generator())
    with_it, without = (restoration_loss(weight)(tiny().build(), batch)[0] for weight in (0.1, 0.0))
    assert with_it.item() == pytest.approx(without.item(), abs=1e-7)


def test_with_several_processes_every_parameter_has_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process draws a task of its own, and gradients are averaged parameter by parameter."""
    batch = Damage(("x2",), 12)((make_textures(3, 24, 1),), generator())
    gradients = []
    for initialised in (False, True):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda initialised=initialised: initialised)
        torch.manual_seed(0)
        model = tiny().build()
        restoration_loss()(model, batch)[0].backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    alone, together = gradients
    assert any(gradient is None for gradient in alone.values())
    for name, gradient in together.items():
        expected = torch.zeros_like(gradient) if alone[name] is None else alone[name]
        assert torch.equal(gradient, expected), name


def test_texture_losses_are_added_with_their_weights() -> None:
    model = recipes_texture.TextureRecipe(features=6, res_blocks=(0, 0, 0, 0), extractor_channels=(3, 4, 5)).build()
    nn.init.normal_(model.last[1].weight)
    batch = small_reference_good(*recipes_texture.make_tile_pairs(2, seed=1))
    values = {
        (perceptual, texture): texture_loss(perceptual=perceptual, texture=texture)(model, batch)[0].item()
        for perceptual in (0.0, 2.0)
        for texture in (0.0, 3.0)
    }
    assert values[2.0, 0.0] > values[0.0, 0.0]
    assert values[0.0, 3.0] > values[0.0, 0.0]
    added = values[2.0, 0.0] + values[0.0, 3.0] - values[0.0, 0.0]
    assert values[2.0, 3.0] == pytest.approx(added, rel=1e-5)


# --- trainings


def test_a_resumed_training_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "VAL_IMAGES", 4)
    whole = train_restorer("textures", tiny()).model.state_dict()

    class StopError(Exception):
        pass

    def stop(history: object) -> None:
        if len(history.losses) == 2:
            raise StopError

    with pytest.raises(StopError):
        train_restorer("textures", tiny(), folder=tmp_path, on_record=stop)
    resumed = train_restorer("textures", tiny(), folder=tmp_path, resume=True).model.state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_the_global_stream_does_not_matter_and_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "VAL_IMAGES", 4)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = train_restorer("textures", tiny(steps=1)).model.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = train_restorer("textures", tiny(steps=1)).model.state_dict()
    assert all(torch.equal(second[name], value) for name, value in first.items())


def test_one_model_learns_all_six_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "VAL_IMAGES", 4)
    trained = train_restorer("textures", tiny(TASKS, steps=12, evaluate_every=6))
    assert {name for name in trained.history.rows[-1] if name.startswith("val_gain_")} == {
        f"val_gain_{t}" for t in TASKS
    }
    untouched = tiny(TASKS).build()
    moved = {task for task in TASKS if trained.model.tails[task][-1].weight.abs().sum() > 0}
    assert untouched.tails["x2"][-1].weight.abs().sum() == 0
    assert len(moved) >= 4  # twelve draws of six


def test_step_0_is_the_baseline() -> None:
    images = make_textures(6, 48, 5)
    for before, after in measure_gains(tiny(("x2", "x4", "denoise50")).build(), images).values():
        assert after == pytest.approx(before, abs=1e-5)


def test_fine_tuning_changes_the_copy_and_leaves_other_heads_and_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "VAL_IMAGES", 4)
    start = train_restorer("textures", tiny())
    kept = {name: value.clone() for name, value in start.model.state_dict().items()}
    tuned = finetune_restorer(start, "x2", steps=3, keep_best=False).model.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in start.model.state_dict().items())
    changed = {name for name, value in tuned.items() if not torch.equal(value, kept[name])}
    assert any(name.startswith("heads.x2") for name in changed)
    assert any(name.startswith("decoder") for name in changed)
    assert not any("denoise30" in name for name in changed)
    with pytest.raises(ValueError, match="task must be one of 'x2', 'denoise30'"):
        finetune_restorer(start, "derain")


@pytest.mark.parametrize("size", [24, 72])
def test_scenes_are_drawn_in_the_size_that_is_asked_for_and_share_none(size: int) -> None:
    drawn = recipes.draw_images("scenes", 3, size, 1)
    assert drawn.shape == (3, 3, size, size)
    assert drawn.dtype == torch.uint8
    assert len(torch.cat([drawn, recipes.draw_images("scenes", 3, size, 2)]).flatten(1).unique(dim=0)) == 6
    train, held_out = load_good_images("scenes", tiny())
    assert len(train) == 10
    assert held_out.shape[1:] == (3, 24, 24)
    with pytest.raises(ValueError, match="kind must be one of 'textures', 'scenes'"):
        recipes.draw_images("photos", 3, size, 1)


def test_photos_of_a_folder_are_learned_from_and_others_watch(tmp_path: Path) -> None:
    for number in range(3):
        values = np.random.RandomState(number).randint(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(values).save(tmp_path / f"{number}.png")
    train, held_out = load_good_images(tmp_path, tiny())
    assert held_out.shape[1:] == (3, 24, 24)
    learned = {patch[0].numpy().tobytes() for patch in (train[index] for index in range(len(train)))}
    assert not learned & {patch.numpy().tobytes() for patch in held_out}
    trained = train_restorer(tmp_path, tiny())
    assert len(trained.history.losses) == 4
    (tmp_path / "1.png").unlink()
    (tmp_path / "2.png").unlink()
    with pytest.raises(FileNotFoundError, match="expected two photos or more, got 1"):
        load_good_images(tmp_path, tiny())


def test_photos_are_scored_on_brightness_in_bytes_without_the_border() -> None:
    large = make_textures(1, 24, 3)[0]
    small = torch.zeros(3, 12, 12, dtype=torch.uint8)
    scores = score_photos(lambda _: large[None].float() / 255, [PhotoPair("a", small, large)])
    assert scores["a"][1] == float("inf")
    assert scores["a"][0] < 20


def test_a_weight_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="contrastive must be 0 or more"):
        RestorationRecipe(contrastive=-1)
    for name in ("perceptual", "texture"):
        with pytest.raises(ValueError, match=f"{name} must be 0 or more"):
            texture_loss(**{name: -0.1})


def test_references_are_measured_with_the_right_and_a_wrong_one() -> None:
    untrained = texture_recipe().build()
    found = measure_references(untrained, 6, seed=3)
    assert set(found) == {"bicubic", "right_reference", "wrong_reference", "itself"}
    assert all(value == pytest.approx(found["bicubic"], abs=1e-5) for value in found.values())


@pytest.mark.learning
def test_forty_steps_denoise_by_three_decibels() -> None:
    recipe = restoration_recipe(("denoise30", "denoise50"), steps=40, evaluate_every=40)
    trained = train_restorer("textures", replace(recipe, train_images=640))
    gains = measure_gains(trained.model, make_textures(40, 24, 77))
    assert gains["denoise30"][1] - gains["denoise30"][0] >= 3
    assert gains["denoise50"][1] - gains["denoise50"][0] >= 4


@pytest.mark.learning
def test_sixty_steps_copy_detail_from_the_right_reference_alone() -> None:
    trained = train_texture(replace(texture_recipe(steps=60, evaluate_every=60), train_pairs=480))
    found = measure_references(trained.model, 32, seed=77)
    assert found["right_reference"] >= found["bicubic"] + 1
    assert found["right_reference"] >= found["wrong_reference"] + 1.5
    assert found["itself"] >= found["right_reference"] + 2


@pytest.mark.slow
@pytest.mark.learning
def test_the_recipe_reaches_its_decibels_for_every_task() -> None:
    trained = train_restorer("textures")
    found = measure_gains(trained.model, make_textures(60, 48, 77))
    gains = {task: after - before for task, (before, after) in found.items()}
    assert gains["denoise30"] >= 6
    assert gains["denoise50"] >= 7.5
    assert gains["x2"] >= 0.4


@pytest.mark.slow
@pytest.mark.learning
def test_the_paper_weight_on_pixels_from_0_to_1_wrecks_the_training() -> None:
    images, gains = make_textures(40, 24, 77), []
    for weight in (0.1 / 255, 0.1):
        recipe = replace(restoration_recipe(("denoise50",), steps=80, evaluate_every=80), contrastive=weight)
        before, after = measure_gains(train_restorer("textures", recipe).model, images)["denoise50"]
        gains.append(after - before)
    assert gains[0] >= gains[1] + 1


def test_the_recipe_builds_the_model_it_describes() -> None:
    model = restoration_recipe().build()
    assert isinstance(model, ImageRestorationTransformer)
    assert sum(parameter.numel() for parameter in model.parameters()) < 3.2e6
