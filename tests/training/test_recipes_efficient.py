"""The comparison of attentions: the same weights, the same recipe, and accuracies of images not trained on."""

from __future__ import annotations

import pytest
import torch

from cs_transformers.data.images import LabelledImages, load_scene_images
from cs_transformers.efficient_layers import ShiftedWindowAttention
from cs_transformers.efficient_methods import METHODS
from cs_transformers.training.recipes_efficient import (
    accuracy_after_swap,
    accuracy_by_method,
    efficient_config,
    efficient_vit,
    image_accuracy,
    patch_options,
    swap_attention,
    train_efficient_vit,
)


@pytest.fixture(scope="module")
def images() -> LabelledImages:
    return load_scene_images("train", count=20)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("side", [1, 2, 8])
def test_the_options_fit_grids_of_any_size(name: str, side: int) -> None:
    model = efficient_vit(name, size=4 * side)
    assert model.eval()(torch.zeros(2, 3, 4 * side, 4 * side)).shape == (2, 10)


def test_a_method_or_a_side_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="name must be one of 'explicit'"):
        patch_options("fast", 8)
    with pytest.raises(ValueError, match="side must be a positive whole number"):
        patch_options("linear", 0)


def test_all_start_from_the_same_weights() -> None:
    explicit = efficient_vit("explicit").state_dict()
    for name in ("chunked", "linear", "sliding window", "shifted window"):
        state = efficient_vit(name).state_dict()
        assert all(torch.equal(explicit[key], state[key]) for key in explicit)


def test_every_second_window_layer_is_shifted() -> None:
    model = efficient_vit("shifted window")
    layers = [module for module in model.modules() if isinstance(module, ShiftedWindowAttention)]
    assert [layer.shift for layer in layers] == [0, 2]


def test_a_swap_keeps_weights_mode_and_for_exact_methods_the_scores(images: LabelledImages) -> None:
    model = efficient_vit("explicit", seed=5).eval()
    pixels = images.images.float() / 255
    for name in METHODS:
        swapped = swap_attention(model, name)
        assert not swapped.training
        assert torch.equal(swapped.head.weight, model.head.weight)
        same = torch.allclose(swapped(pixels), model(pixels), atol=1e-5)
        assert same == (name in ("explicit", "chunked"))


def test_the_comparison_measures_each_method(images: LabelledImages) -> None:
    found = accuracy_by_method(["linear", "chunked"], images, images, steps=2, batch_size=10)
    assert list(found) == ["linear", "chunked"]
    assert all(0 <= one["accuracy"] <= 1 and one["seconds"] > 0 for one in found.values())


def test_a_swapped_model_is_judged_before_and_after(images: LabelledImages) -> None:
    model = efficient_vit("explicit")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = accuracy_after_swap(model, ["chunked", "linear"], images, images, steps=2, batch_size=10)
    assert found["chunked"]["swapped"] == image_accuracy(model, images, images)
    assert set(found["linear"]) == {"swapped", "tuned"}
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.learning
def test_scenes_are_learned_with_a_method_of_linear_cost() -> None:
    train, test = load_scene_images("train", count=1000), load_scene_images("test", count=200)
    model = efficient_vit("sliding window", patch_size=8)
    train_efficient_vit(model, train, efficient_config(steps=150, batch_size=32))
    assert image_accuracy(model, train, test) > 0.3  # a tenth is chance
