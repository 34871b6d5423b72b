"""German captions: checked against forms written down by hand, and read back."""

from __future__ import annotations

from collections import Counter

import pytest

from cs_transformers.data.scene_german import (
    ERROR_KINDS,
    WORDINGS,
    count_errors,
    decline,
    describe_in_german,
    parse_german,
    say_in_german,
    scene_pairs,
    translation_errors,
)
from cs_transformers.data.scene_language import Mention, Statement, parse_caption, statements
from cs_transformers.data.scene_shapes import COLOURS, SHAPES, SIZES
from cs_transformers.data.scenes import make_scenes

# From a grammar book: the mixed declension after *ein*.
FORMS = {
    ("small", "red", "circle"): (
        "ein kleiner roter Kreis", "einen kleinen roten Kreis", "einem kleinen roten Kreis", "er", "der",
    ),
    ("large", "white", "diamond"): (
        "eine große weiße Raute", "eine große weiße Raute", "einer großen weißen Raute", "sie", "die",
    ),
    ("small", "purple", "square"): (
        "ein kleines violettes Quadrat", "ein kleines violettes Quadrat", "einem kleinen violetten Quadrat",
        "es", "das",
    ),
    ("large", "blue", "cross"): (
        "ein großes blaues Kreuz", "ein großes blaues Kreuz", "einem großen blauen Kreuz", "es", "das",
    ),
    ("large", "yellow", "triangle"): (
        "ein großes gelbes Dreieck", "ein großes gelbes Dreieck", "einem großen gelben Dreieck", "es", "das",
    ),
}  # fmt: skip
CIRCLE, DIAMOND, SQUARE = (
    Mention("small", "red", "circle"),
    Mention("large", "green", "diamond"),
    Mention("small", "blue", "square"),
)


@pytest.mark.parametrize("words", FORMS, ids=" ".join)
def test_article_adjectives_and_pronouns_agree_with_the_noun(words: tuple[str, str, str]) -> None:
    found = decline(Mention(*words))
    assert (found.nominative, found.accusative, found.dative, found.pronoun, found.relative) == FORMS[words]


@pytest.mark.parametrize(
    ("wording", "sentence"),
    [
        (0, "ein kleiner roter Kreis links von einer großen grünen Raute und über einem kleinen blauen Quadrat"),
        (1, "es gibt einen kleinen roten Kreis links von einer großen grünen Raute, "
            "die über einem kleinen blauen Quadrat liegt"),
        (2, "ein kleiner roter Kreis liegt links von einer großen grünen Raute und auch über einem kleinen blauen "
            "Quadrat"),
        (3, "links von einer großen grünen Raute und über einem kleinen blauen Quadrat sehen wir einen kleinen roten "
            "Kreis"),
        (4, "das ist ein kleiner roter Kreis links von einer großen grünen Raute über einem kleinen blauen Quadrat"),
    ],
)  # fmt: skip
def test_three_objects_in_every_wording(wording: int, sentence: str) -> None:
    second = 1 if wording in (1, 4) else 0
    statement = Statement((CIRCLE, DIAMOND, SQUARE), ((0, "left of", 1), (second, "above", 2)))
    assert say_in_german(statement, wording) == sentence


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("circle", "das ist ein kleiner roter Kreis und er ist in der Mitte"),
        ("diamond", "das ist eine kleine rote Raute und sie ist in der Mitte"),
        ("cross", "das ist ein kleines rotes Kreuz und es ist in der Mitte"),
    ],
)
def test_a_pronoun_stands_for_the_noun_of_its_gender(shape: str, sentence: str) -> None:
    assert say_in_german(Statement((Mention("small", "red", shape),), place=(1, 1)), 4) == sentence


def test_each_german_caption_says_what_the_english_one_of_its_number_says() -> None:
    for scene in make_scenes(300, seed=7):
        for wording, (german, statement) in enumerate(zip(describe_in_german(scene), statements(scene), strict=True)):
            assert parse_german(german) == (statement, wording), german
    for english, german in scene_pairs(40, seed=8):
        assert parse_german(german)[0] == parse_caption(english)


def test_pairs_do_not_depend_on_how_many_are_made() -> None:
    assert scene_pairs(3, seed=5)[10:] == scene_pairs(1, seed=5, first=2)
    assert len(scene_pairs(3, seed=5)) == 15


def test_every_object_of_the_world_has_german_words() -> None:
    forms = {decline(Mention(*kind)).dative for kind in ((s, c, k) for s in SIZES for c in COLOURS for k in SHAPES)}
    assert len(forms) == len(SIZES) * len(COLOURS) * len(SHAPES)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ein kleiner roter Kreis",
        "ein kleine roter Kreis oben",
        "eine kleiner roter Kreis oben",
        "Ein kleiner roter Kreis oben",
        "ein roter kleiner Kreis oben",
        "das ist ein kleiner roter Kreis und sie ist oben",
        "es gibt ein kleiner roter Kreis oben",
        "ein kleiner roter Kreis links von ein kleines blaues Quadrat",
        "es gibt einen kleinen roten Kreis links von einer großen grünen Raute, das über einem kleinen blauen Quadrat "
        "liegt",
    ],
)
def test_what_does_not_agree_is_not_read(text: str) -> None:
    assert parse_german(text) is None


def test_blanks_before_a_comma_do_not_matter() -> None:
    text = say_in_german(Statement((CIRCLE, DIAMOND, SQUARE), ((0, "left of", 1), (1, "above", 2))), 1)
    assert parse_german(text.replace(",", " ,  ")) == parse_german(text) != None  # noqa: E711


RIGHT = "das ist ein kleiner roter Kreis und er ist links von einer großen grünen Raute"


@pytest.mark.parametrize(
    ("word", "wrong", "kind"),
    [
        ("ein", "einen", "case"),
        ("ein", "eine", "gender"),
        ("kleiner", "kleinen", "case"),
        ("kleiner", "kleines", "gender"),
        ("roter", "rote", "gender"),
        ("einer", "eine", "case"),
        ("einer", "einem", "gender"),
        ("großen", "große", "case"),
        ("er", "sie", "gender"),
        ("roter", "blauer", "colour"),
        ("großen", "kleinen", "size"),
        ("Raute", "Kreuz", "shape"),
        ("links", "rechts", "place or relation"),
        ("und", "liegt", "other word"),
    ],
)
def test_each_kind_of_error_is_told(word: str, wrong: str, kind: str) -> None:
    words = RIGHT.split()
    words[words.index(word)] = wrong
    assert translation_errors(" ".join(words), RIGHT) == Counter([kind])
    assert kind in ERROR_KINDS


def test_a_sentence_of_another_length_is_one_error_and_a_right_one_is_none() -> None:
    assert translation_errors(RIGHT + " oben", RIGHT) == Counter(["length"])
    assert translation_errors(RIGHT, RIGHT) == Counter()


def test_errors_are_counted_by_translation() -> None:
    wrong = RIGHT.replace("kleiner roter", "kleines rotes")
    found = count_errors([RIGHT, wrong, "oben"], [RIGHT] * 3)
    assert found == {"wrong": 2, **dict.fromkeys(ERROR_KINDS, 0), "gender": 1, "length": 1}
    with pytest.raises(ValueError, match=r"count_errors: written must be one for each reference, got 1 and 2"):
        count_errors([RIGHT], [RIGHT] * 2)


def test_an_unknown_wording_is_refused() -> None:
    statement = Statement((CIRCLE,), place=(0, 0))
    with pytest.raises(ValueError, match=r"say_in_german: wording must be from 0 to 4, got 5"):
        say_in_german(statement, len(WORDINGS))
