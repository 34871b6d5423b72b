"""Files of trained models: each loader refuses what is not its own, and says which file holds what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cs_transformers.course.translation import load_translator
from cs_transformers.data.tokens import WordTokenizer
from cs_transformers.training.checkpoints import load_checkpoint, save_checkpoint
from cs_transformers.training.history import History
from cs_transformers.training.recipes_detection import DetectionRecipe, TrainedDetector, load_detector
from cs_transformers.training.recipes_restoration import RestorationRecipe, TrainedRestorer, load_restorer
from cs_transformers.training.recipes_translation import TranslationRecipe, Translator, make_translator
from cs_transformers.training.stored_models import kind_of

LOADERS = {"translator": load_translator, "detector": load_detector, "restorer": load_restorer}


def make_files(folder: Path) -> None:
    """A tiny untrained model of each kind, in the files that the commands write."""
    words, recipe = WordTokenizer.build(["ein Hund"]), TranslationRecipe(width=8, num_heads=2, num_layers=1)
    model = make_translator(len(words), len(words), recipe)
    save_checkpoint(
        folder / "translator.pt", Translator(model, words, words, recipe, {"de": set(), "en": set()}).state()
    )
    sizes = {"widths": (4,), "strides": (2,), "width": 8, "num_heads": 2, "dim_feedforward": 8, "num_queries": 2}
    detection = DetectionRecipe(**sizes, num_encoder_layers=1, num_decoder_layers=1)
    TrainedDetector(detection.build(2), ("a", "b"), detection).save(folder / "detector.pt")
    sizes = {"img_size": 8, "patch_size": 4, "features": 2, "num_heads": 2, "num_layers": 1, "dim_feedforward": 8}
    restoration = RestorationRecipe(tasks=("x2",), **sizes)
    TrainedRestorer(restoration.build(), History(), restoration).save(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_files(folder)
    return folder


@pytest.mark.parametrize("kind", LOADERS)
def test_each_loader_opens_its_own_file(kind: str, files: Path) -> None:
    for path in (files, files / f"{kind}.pt"):
        assert LOADERS[kind](path) is not None


@pytest.mark.parametrize("other", LOADERS)
@pytest.mark.parametrize("kind", LOADERS)
def test_the_model_of_another_task_is_named_with_its_file(kind: str, other: str, files: Path) -> None:
    if kind == other:
        assert kind_of(load_checkpoint(files / f"{other}.pt")) == f"a {kind}"
        return
    told = rf"load_{kind}: path must be the file of a {kind}, got .*{other}\.pt, which holds a {other}; name the file"
    with pytest.raises(ValueError, match=told):
        LOADERS[kind](files / f"{other}.pt")


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(("state", "held"), [
    ({"step": 3, "config": {}, "optimizers": [], "model": {}, "history": {}}, "a training that is to be resumed"),
    ({"step": 3, "row": {}, "model": {}}, "a training's best weights"),
    ({"encoder.weight": 1, "bias": 2}, "bias, encoder.weight"),
    ({f"layer{i}": i for i in range(9)}, "layer0, .*, layer5 and 3 more entries"),
    ({}, "nothing"),
])  # fmt: skip
def test_what_else_a_file_holds_is_said(kind: str, state: dict, held: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "some.pt", state)
    with pytest.raises(ValueError, match=rf"must be the file of a {kind}, got .*some\.pt, which holds {held}; name"):
        LOADERS[kind](tmp_path / "some.pt")


def without_a_weight(state: dict) -> dict:
    del state["model"][next(iter(state["model"]))]
    return state


def with_a_foreign_weight(state: dict) -> dict:
    return {**state, "model": {**state["model"], "foreign": torch.zeros(1)}}


def with_a_foreign_size(state: dict) -> dict:
    name = "sizes" if "sizes" in state else "recipe"
    return {**state, name: {**state[name], "colour": 3}}


def with_no_weights(state: dict) -> dict:
    return {**state, "model": [1, 2]}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(("change", "reason"), [
    (without_a_weight, "RuntimeError: .*Missing key"),
    (with_a_foreign_weight, 'RuntimeError: .*Unexpected key.* "foreign"'),
    (with_a_foreign_size, "TypeError: .*'colour'"),
    (with_no_weights, "TypeError: "),
])  # fmt: skip
def test_parts_that_do_not_fit_each_other_are_an_error_that_names_the_file(
    kind: str, change: Callable[[dict], dict], reason: str, files: Path, tmp_path: Path
) -> None:
    state = change(load_checkpoint(files / f"{kind}.pt"))
    save_checkpoint(tmp_path / f"{kind}.pt", state)
    told = rf"load_{kind}: path must be the file of a {kind} whose weights fit .*{kind}\.pt, in which they do not"
    with pytest.raises(ValueError, match=rf"{told} \({reason}.*train again with cst train"):
        LOADERS[kind](tmp_path)
