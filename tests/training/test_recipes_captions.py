"""The recipes behind `cst train caption`: small forms of both, and the interruption in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cs_transformers.captioning import caption_loss
from cs_transformers.data.backbones import load_scene_encoder
from cs_transformers.data.scene_files import write_scenes
from cs_transformers.data.scene_language import describe, parse_caption
from cs_transformers.data.scenes import make_scenes
from cs_transformers.training.recipes_captions import (
    CaptionRecipe,
    SceneCaptioner,
    ScenePictures,
    caption_scores,
    load_photo_captions,
    make_captioner,
    photos_recipe,
    scenes_recipe,
    train_captioner,
    train_photo_captioner,
    train_scene_captioner,
    words_of,
)


def tiny(recipe: CaptionRecipe, **changes) -> CaptionRecipe:
    sizes = {"width": 16, "num_heads": 2, "num_layers": 1, "dim_feedforward": 24, "train_scenes": 12}
    return replace(recipe, **{**sizes, **changes})


@pytest.mark.parametrize("memory", ["grid", "global"])
def test_a_captioner_of_scenes_scores_every_caption_of_every_picture(memory: str) -> None:
    pictures = ScenePictures(make_scenes(3, 5))
    words = {word: index for index, word in enumerate(range(38))} | {"<NULL>": 0, "<START>": 1, "<END>": 2}
    torch.manual_seed(0)
    model = SceneCaptioner({str(word): index for word, index in words.items()}, tiny(scenes_recipe(memory)))
    model.eval()
    images, captions = pictures.batch(torch.arange(3))
    scores = model(images, captions[:, :4, :-1])
    assert scores.shape == (12, captions.shape[2] - 1, model.captioner.vocab_size)
    alone = model(images[1:2], captions[1:2, 2:3, :-1])
    torch.testing.assert_close(scores[4 + 2], alone[0])
    assert model.features(images).shape == (3, 64 if memory == "grid" else 1, 16)


def test_a_global_vector_hides_the_places_and_a_grid_shows_them() -> None:
    torch.manual_seed(0)
    vocabulary = {"<NULL>": 0, "<START>": 1, "<END>": 2, "a": 3}
    for memory, sees in (("grid", True), ("global", False)):
        model = make_captioner(vocabulary, 8, 6, tiny(scenes_recipe(memory)))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
        model.eval()
        features = torch.randn(1, 64, 8)
        shuffled = features[:, torch.randperm(64)]
        words = torch.tensor([[1, 3]])
        moved = (model(features, words) - model(shuffled, words)).abs().max().item()
        assert (moved > 1e-4) is sees


def test_pictures_come_with_their_own_captions() -> None:
    scenes = make_scenes(4, 9)
    pictures = ScenePictures(scenes)
    images, captions = pictures.batch(torch.tensor([2, 0]))
    assert images.shape == (2, 3, 64, 64)
    assert images.dtype == torch.uint8
    from cs_transformers.data.scene_files import scene_vocabulary

    words = scene_vocabulary().idx_to_word
    assert [words_of(row[1:].numpy(), words) for row in captions[0]] == describe(scenes[2])
    assert len(pictures) == 4


def test_training_lowers_the_loss_and_stores_the_encoder(tmp_path: Path) -> None:
    recipe = tiny(scenes_recipe(steps=30, batch_size=4, evaluate_every=10))
    trained = train_scene_captioner(recipe, folder=tmp_path)
    assert trained.history["val_loss"][-1] < trained.history["val_loss"][0]
    encoder = load_scene_encoder(tmp_path / "scene_encoder.pt")
    images = ScenePictures(make_scenes(2, 3)).images
    with torch.no_grad():
        torch.testing.assert_close(encoder(images)[1], trained.model.eval().encoder(images)[1])
    sentences = trained.model.write(images, trained.idx_to_word)
    assert len(sentences) == 2
    assert all("<" not in sentence for sentence in sentences)


def test_a_training_of_scenes_goes_on_where_it_stopped(tmp_path: Path) -> None:
    recipe = tiny(scenes_recipe(steps=8, batch_size=4, evaluate_every=3, checkpoint_every=2))
    whole = train_scene_captioner(recipe)

    def stop(history) -> None:
        if history.rows[-1]["step"] >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_scene_captioner(recipe, folder=tmp_path, on_record=stop)
    resumed = train_scene_captioner(recipe, folder=tmp_path, resume=True)
    assert whole.history.losses == resumed.history.losses
    pairs = zip(whole.model.state_dict().values(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("memory", ["grid", "global"])
def test_a_folder_in_the_layout_of_cs231n_trains_a_captioner(tmp_path: Path, memory: str) -> None:
    folder = write_scenes(tmp_path / "scenes", train=10, val=6)
    recipe = tiny(photos_recipe(memory, epochs=3, batch_size=10), dropout=0.0)
    trained = train_photo_captioner(folder, recipe)
    assert trained.history["val_loss"][-1] < trained.history["val_loss"][0]
    scores = caption_scores(trained, load_photo_captions(folder, memory), "val")
    assert scores["bleu"] >= 0
    assert scores["cider"] >= 0


def test_captions_of_real_photos_train_on_both_kinds_of_features(data_dir: Path) -> None:
    if not (data_dir / "flickr8k_1000").is_dir():
        pytest.skip("real data: CST_DATA_DIR holds no flickr8k_1000")
    for memory, width in (("grid", 128), ("global", 512)):
        recipe = tiny(photos_recipe(memory, steps=3, batch_size=4))
        trained = train_photo_captioner("flickr8k", recipe)
        assert trained.model.input_dim == width
        assert np.isfinite(trained.history.losses).all()


def test_the_same_seed_gives_the_same_captioner_whatever_was_drawn_before() -> None:
    recipe = tiny(scenes_recipe(steps=2, batch_size=4))
    torch.manual_seed(1)
    first = train_scene_captioner(recipe)
    torch.rand(7)
    before = torch.get_rng_state()
    second = train_scene_captioner(recipe)
    assert first.history.losses == second.history.losses
    assert torch.equal(before, torch.get_rng_state())


def test_the_name_of_the_data_chooses_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cs_transformers.training.recipes_captions.make_scenes", lambda _, seed: make_scenes(8, seed))
    scenes = train_captioner("scenes", "global", steps=2, batch_size=4)
    assert (type(scenes.model).__name__, scenes.model.memory) == ("SceneCaptioner", "global")
    folder = write_scenes(tmp_path / "scenes", train=4, val=2)
    photos = train_captioner(folder, "grid", steps=2, batch_size=4)
    assert (type(photos.model).__name__, photos.model.input_dim) == ("CaptioningTransformer", 64)
    assert len(photos.history.losses) == 2


def test_recipes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="CaptionRecipe: memory must be one of 'grid', 'global'"):
        CaptionRecipe(memory="both")
    with pytest.raises(ValueError, match="captions_per_scene must be from 1 to 5, got 6"):
        CaptionRecipe(captions_per_scene=6)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train_photo_captioner("nowhere")


@pytest.mark.learning
def test_captions_of_scenes_become_sentences_of_the_language() -> None:
    """Short form of the benchmark: after 150 steps captions are sentences that name as many objects as there are."""
    recipe = replace(scenes_recipe(steps=150, evaluate_every=150), train_scenes=1500, captions_per_scene=2)
    trained = train_scene_captioner(recipe)
    scenes = make_scenes(100, 2_000_001)
    written = trained.model.write(ScenePictures(scenes).images, trained.idx_to_word)
    parsed = [parse_caption(text) for text in written]
    assert sum(statement is not None for statement in parsed) >= 80
    counted = [len(one.mentions) == len(scene.objects) for one, scene in zip(parsed, scenes, strict=True) if one]
    assert sum(counted) >= 60
    assert isinstance(trained.model, nn.Module)
    assert trained.history.losses[-1] < 0.5 * trained.history.losses[0]


def test_the_loss_of_a_recipe_is_the_mean_over_real_words() -> None:
    torch.manual_seed(0)
    recipe = tiny(scenes_recipe(steps=1, batch_size=12, evaluate_every=1))
    trained = train_scene_captioner(recipe)
    val = ScenePictures(make_scenes(12, 1_000_234))
    with torch.no_grad():
        scores = trained.model.eval()(val.images, val.captions[:, :, :-1])
        expected = caption_loss(scores, val.captions.flatten(0, 1), null=0).item()
    assert trained.history["val_loss"][0] == pytest.approx(expected, rel=1e-5)
