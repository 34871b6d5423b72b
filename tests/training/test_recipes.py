"""Recipes of the training exercises: they train what they promise, and refuse what cannot be trained."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.data.images import channel_statistics, load_images, normalise
from cs_transformers.training.recipes import (
    captions_by_heart,
    endless_batches,
    overfit_batch,
    overfit_captions,
    predict_classes,
    vit_recipe,
)
from cs_transformers.vit import VisionTransformer

WORDS = {word: index for index, word in enumerate(["<NULL>", "<START>", "<END>", "<UNK>", *"abcdefgh"])}


def few_captions(count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    captions = torch.randint(4, len(WORDS), (count, 7), generator=generator)
    captions[:, 0], captions[:, 5:] = 1, 0
    captions[:, 5] = 2
    return torch.randn(count, 9, generator=generator), captions


def small_captioner() -> CaptioningTransformer:
    torch.manual_seed(0)
    return CaptioningTransformer(WORDS, input_dim=9, wordvec_dim=64, num_heads=2, num_layers=1, max_length=8)


def small_vit(classes: int = 10) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(patch_size=8, embed_dim=64, num_layers=1, num_heads=2, num_classes=classes)


def test_captions_are_learnt_by_heart() -> None:
    model, (features, captions) = small_captioner(), few_captions()
    losses = overfit_captions(model, features, captions, steps=350, batch_size=3)
    scores = captions_by_heart(model, features, captions)
    assert len(losses) == 350
    assert losses[-1] < 0.1 * losses[0]
    assert scores["loss"] < 0.1
    assert scores["reproduced"] == 6


def test_the_score_by_heart_is_counted_as_its_docstring_says() -> None:
    model, (features, captions) = small_captioner(), few_captions()
    model.train()
    scores = captions_by_heart(model, features, captions)
    assert model.training
    model.eval()
    real = captions[:, 1:] != 0
    logs = model(features, captions[:, :-1]).log_softmax(-1).gather(2, captions[:, 1:, None])[..., 0]
    assert scores["loss"] == pytest.approx(-(logs * real).mean().item(), rel=1e-5)
    assert scores["word_loss"] == pytest.approx(-logs[real].mean().item(), rel=1e-5)
    assert scores["reproduced"] == 0


def test_the_same_seed_gives_the_same_captioner() -> None:
    features, captions = few_captions()
    found = []
    for seed in (1, 1, 2):
        model = small_captioner()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            found.append(overfit_captions(model, features, captions, steps=5, batch_size=2, seed=seed))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_batch_is_learnt_by_heart() -> None:
    images, labels, _ = load_images("scenes", "train", count=20)
    pixels = normalise(images, *channel_statistics(images))
    model = small_vit()
    losses = overfit_batch(model, pixels, labels, steps=120)
    assert len(losses) == 120
    assert torch.equal(predict_classes(model, pixels), labels)


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_vision_transformer_names_scenes_that_it_has_never_seen(seed: int) -> None:
    train, test = load_images("scenes", "train", count=2000), load_images("scenes", "test", count=500)
    torch.manual_seed(seed)
    predicted = vit_recipe(train.images, train.labels, test.images, seed=seed)
    assert predicted.dtype == torch.int64
    assert (predicted == test.labels).float().mean() >= 0.9


def test_batches_go_on_and_give_each_example_once_per_round() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(7))
    rounds = [numbers for (numbers,) in endless_batches(data, steps=8, batch_size=2, seed=3)]
    assert len(rounds) == 8
    assert sorted(torch.cat(rounds[:4]).tolist()) == sorted(torch.cat(rounds[4:]).tolist()) == list(range(7))
    assert torch.cat(rounds[:4]).tolist() != torch.cat(rounds[4:]).tolist()


def test_predictions_keep_the_order_of_the_images_and_the_mode_of_the_model() -> None:
    model = small_vit()
    model.train()
    images = torch.randn(9, 3, 32, 32)
    together = predict_classes(model, images)
    assert torch.equal(together, predict_classes(model, images, batch_size=2))
    assert torch.equal(together.flip(0), predict_classes(model, images.flip(0)))
    assert model.training


def test_what_cannot_be_trained_is_refused_before_any_step() -> None:
    features, captions = few_captions()
    images = torch.zeros(4, 3, 32, 32)
    with pytest.raises(ValueError, match="overfit_captions: features must be one row for each of some captions"):
        overfit_captions(small_captioner(), features[:2], captions)
    with pytest.raises(ValueError, match="got 0 features for 0 captions"):
        overfit_captions(small_captioner(), features[:0], captions[:0])
    with pytest.raises(TypeError, match=r"captions must be a torch\.Tensor"):
        overfit_captions(small_captioner(), features, captions.numpy())
    with pytest.raises(ValueError, match="expected batch_size to be a whole number of at least 1"):
        overfit_captions(small_captioner(), features, captions, batch_size=0)
    with pytest.raises(ValueError, match="overfit_batch: labels must be"):
        overfit_batch(small_vit(), images, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="overfit_batch: steps must be"):
        overfit_batch(small_vit(), images, torch.zeros(4, dtype=torch.int64), steps=0)
    with pytest.raises(ValueError, match="vit_recipe: labels must be"):
        vit_recipe(images.byte(), torch.zeros(3, dtype=torch.int64), images.byte())
    with pytest.raises(TypeError, match=r"vit_recipe: unlabelled must be a torch\.Tensor"):
        vit_recipe(images.byte(), torch.zeros(4, dtype=torch.int64), None)


@pytest.mark.parametrize("recipe", [overfit_captions, overfit_batch, vit_recipe])
def test_the_answer_of_an_exercise_is_the_tail_of_its_function(recipe) -> None:
    lines = inspect.getsource(recipe).rstrip().splitlines()
    assert lines[-1].strip().startswith("### END SOLUTION")
    assert lines[-2].strip().startswith("return ")


def test_recipes_train_on_the_device_of_the_model() -> None:
    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2, dtype=torch.float64))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1)[:, :2] * self.weight

    images = torch.randn(5, 1, 2, 2, dtype=torch.float64)
    losses = overfit_batch(Noting(), images, torch.tensor([0, 1, 0, 1, 0]), steps=3)
    assert losses[0] == pytest.approx(torch.log(torch.tensor(2.0)).item())
