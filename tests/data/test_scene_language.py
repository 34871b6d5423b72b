from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from cs_transformers.data.scene_language import (
    LINKS,
    MAX_WORDS,
    caption_accuracy,
    caption_is_true,
    describe,
    parse_caption,
    statements,
)
from cs_transformers.data.scenes import Scene, SceneObject, make_scenes

CAPTIONS = "87312fdd75ef5c61b3d9e81c97cdc30e243e4669018e56b217bc3bc1942edc5f"


def thing(shape: str, colour: str, size: str, row: int, column: int) -> SceneObject:
    return SceneObject(shape, colour, size, (row, column), (0, 0), 5, (0, 0, 1, 1))


def scene_of(*objects: SceneObject) -> Scene:
    return Scene(objects, 64, 3, (45, 0, 0), seed=1, number=0, limits=(1, 3))


CIRCLE, SQUARE, CROSS = (
    thing("circle", "red", "small", 0, 0),
    thing("square", "blue", "large", 0, 2),
    thing("cross", "white", "small", 2, 2),
)


def test_five_wordings_differ_and_stay_the_same() -> None:
    scenes = make_scenes(20, 231)
    captions = [describe(scene) for scene in scenes]
    assert all(len(set(texts)) == len(LINKS) == 5 for texts in captions)
    text = "\n".join(caption for texts in captions for caption in texts)
    assert hashlib.sha256(text.encode()).hexdigest() == CAPTIONS


def test_the_longest_caption_has_as_many_words_as_promised() -> None:
    lengths = [len(text.split()) for scene in make_scenes(400, 2) for text in describe(scene)]
    assert max(lengths) == MAX_WORDS


def test_every_caption_is_true_of_its_scene_and_parses_to_what_it_was_made_from() -> None:
    for scene in make_scenes(300, 12):
        for text, statement in zip(describe(scene), statements(scene), strict=True):
            assert parse_caption(text) == statement
            assert caption_is_true(text, scene)


def test_captions_of_other_scenes_are_hardly_ever_true() -> None:
    scenes = make_scenes(300, 13)
    hits = [caption_is_true(text, other) for one, other in pairwise(scenes) for text in describe(one)]
    assert np.mean(hits) < 0.01


def test_a_hand_made_scene_makes_these_true() -> None:
    scene = scene_of(CIRCLE, SQUARE, CROSS)
    for text in (
        "a small red circle left of a large blue square and above a small white cross",
        "a small red circle left of a large blue square and left of a small white cross",
        "there is a small white cross below a large blue square which is right of a small red circle",
        "a large blue square lies right of a small red circle and also above a small white cross",
        "below a large blue square and right of a small red circle we see a small white cross",
        "this is a small white cross right of a small red circle left of a large blue square",
        "<START> a small white cross lies below a large blue square and also right of a small red circle <END> <NULL>",
        "  A small RED circle left of a large blue square and   above a small white cross",
    ):
        assert caption_is_true(text, scene), text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a small red circle right of a large blue square and above a small white cross", "relation"),
        ("a small red circle above a large blue square and above a small white cross", "same row"),
        ("a small blue circle left of a large blue square and above a small white cross", "colour"),
        ("a large red circle left of a large blue square and above a small white cross", "size"),
        ("a small red diamond left of a large blue square and above a small white cross", "shape"),
        ("a small red circle left of a large blue square", "an object is not named"),
        ("a small red circle left of a small red circle and above a small white cross", "named twice"),
        ("a small red circle at the top left", "two objects are not named"),
        ("a small red circle left of a large blue square and above a small white cross now", "a word too many"),
        ("small red circle left of a large blue square and above a small white cross", "no article"),
        ("a red small circle left of a large blue square and above a small white cross", "order"),
        ("a small red circle left a large blue square and above a small white cross", "half a relation"),
        ("a small red circle left of a large blue square <END> and above a small white cross", "<END> in the middle"),
        ("a small red circle and a large blue square and a small white cross", "no relation"),
        ("", "nothing"),
        ("<START> <END>", "nothing between"),
        ("<UNK>", "no word"),
    ],
)
def test_a_caption_is_not_true_for_each_of_these_reasons(text: str, why: str) -> None:
    assert not caption_is_true(text, scene_of(CIRCLE, SQUARE, CROSS)), why


def test_the_place_of_a_lone_object_counts() -> None:
    scene = scene_of(thing("diamond", "green", "large", 1, 1))
    assert caption_is_true("this is a large green diamond and it is at the centre", scene)
    assert caption_is_true("at the centre we see a large green diamond", scene)
    assert not caption_is_true("at the left we see a large green diamond", scene)
    assert not caption_is_true("at the top left we see a large green diamond", scene)


def test_two_objects_that_differ_in_size_alone_are_told_apart_by_what_relations_allow() -> None:
    scene = scene_of(thing("cross", "red", "small", 0, 1), thing("cross", "red", "large", 2, 1))
    assert caption_is_true("a small red cross above a large red cross", scene)
    assert not caption_is_true("a large red cross above a small red cross", scene)
    assert not caption_is_true("a small red cross left of a large red cross", scene)


def test_swapping_one_word_of_a_true_caption_for_another_of_its_kind_makes_it_false() -> None:
    kinds = (
        ("red", "yellow", "green", "blue", "purple", "white"),
        ("circle", "square", "triangle", "cross", "diamond"),
        ("small", "large"),
        ("above", "below"),
    )
    checked = 0
    for scene in make_scenes(60, 21):
        for text in describe(scene):
            words = text.split()
            for place, word in enumerate(words):
                kind = next((kind for kind in kinds if word in kind), (word,))
                for other in set(kind) - {word}:
                    swapped = " ".join([*words[:place], other, *words[place + 1 :]])
                    assert not caption_is_true(swapped, scene), swapped
                    checked += 1
    assert checked > 5000


def test_caption_accuracy_is_the_share_of_true_captions() -> None:
    scenes = make_scenes(4, 3)
    captions = [describe(scene)[0] for scene in scenes]
    captions[2] = "a dog"
    assert caption_accuracy(captions, scenes) == 0.75
    with pytest.raises(ValueError, match="got 3 captions and 4 scenes; pass two lists of equal length"):
        caption_accuracy(captions[:3], scenes)
    with pytest.raises(ValueError, match="got 0 captions and 0 scenes"):
        caption_accuracy([], [])


def test_scenes_of_other_grids_have_no_captions() -> None:
    with pytest.raises(
        ValueError, match="describe: scene must be one of 3 x 3 cells with 1 to 3 objects, got 2 x 2 cells"
    ):
        describe(make_scenes(1, 0, side=32, grid=2)[0])
    with pytest.raises(ValueError, match="and 4 objects; make scenes with side=64, grid=3, objects=\\(1, 3\\)"):
        statements(make_scenes(1, 0, objects=(4, 4))[0])
