"""Captions of scenes in five wordings, and the way back: what a caption states, and whether a scene makes it true.

One table of templates serves both directions, so whatever ``describe`` can say, ``parse_caption`` understands, and
nothing else. What is said (``statements``) is apart from how it is said (``Language``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from cs_transformers.data.scenes import COLOURS, SHAPES, SIZES, Scene, SceneObject, draw
from cs_transformers.errors import explain

RELATIONS = ("left of", "right of", "above", "below")
PLACES = (
    ("top left", "top", "top right"),
    ("left", "centre", "right"),
    ("bottom left", "bottom", "bottom right"),
)
_CELL_OF = {name: (row, column) for row, names in enumerate(PLACES) for column, name in enumerate(names)}
MAX_WORDS = 20  # of the longest caption, without <START> and <END>; a test counts


@dataclass(frozen=True)
class Mention:
    """An object as a caption names it.

    Args:
        size: One of ``SIZES``.
        colour: A key of ``COLOURS``.
        shape: One of ``SHAPES``.
    """

    size: str
    colour: str
    shape: str


@dataclass(frozen=True)
class Statement:
    """What a caption says, free of wording and language.

    Args:
        mentions: The objects in the order in which the templates number them.
        relations: (first, relation, second): mention ``first`` is ``relation`` mention ``second``, as in
            (0, "left of", 1).
        place: (row, column) of a lone object in a 3 x 3 picture; None when relations say where things are.
    """

    mentions: tuple[Mention, ...]
    relations: tuple[tuple[int, str, int], ...] = ()
    place: tuple[int, int] | None = None


_STAR, _CHAIN = ((0, 1), (0, 2)), ((0, 1), (1, 2))
LINKS = (_STAR, _CHAIN, _STAR, _STAR, _CHAIN)  # which mentions the relations of each wording join, in every language


@dataclass(frozen=True)
class Language:
    """Words and sentences of a language, for both directions.

    Args:
        mention: Template of an object with the fields ``{size} {colour} {shape}``.
        place: Template of a place with the field ``{name}``.
        wordings: For each entry of ``LINKS`` the sentences for one, two and three objects, with the fields
            ``{a} {b} {c}`` (objects), ``{r0} {r1}`` (relations) and ``{place}``.
    """

    mention: str
    place: str
    wordings: tuple[tuple[str, str, str], ...]

    def say(self, statement: Statement, wording: int) -> str:
        """Put a statement into words.

        Args:
            statement: What to say.
            wording: Index into ``wordings``.

        Returns:
            Words in lower case, one blank between them.
        """
        objects = [self.mention.format(**vars(mention)) for mention in statement.mentions]
        fields = dict(zip("abc", objects, strict=False))
        fields |= {f"r{index}": relation for index, (_, relation, _) in enumerate(statement.relations)}
        if statement.place is not None:
            row, column = statement.place
            fields["place"] = self.place.format(name=PLACES[row][column])
        return self.wordings[wording][len(objects) - 1].format(**fields)

    @cached_property
    def patterns(self) -> tuple[tuple[int, re.Pattern[str]], ...]:
        """Pairs of a wording and the regular expression of one of its sentences."""
        return tuple(
            (wording, re.compile(self._pattern(sentence)))
            for wording, sentences in enumerate(self.wordings)
            for sentence in sentences
        )

    def _pattern(self, sentence: str) -> str:
        def one_of(group: str, words: Sequence[str]) -> str:
            return f"(?P<{group}>{'|'.join(sorted(words, key=len, reverse=True))})"

        fields = {
            letter: self.mention.format(
                size=one_of(f"{letter}_size", SIZES),
                colour=one_of(f"{letter}_colour", tuple(COLOURS)),
                shape=one_of(f"{letter}_shape", SHAPES),
            )
            for letter in "abc"
        }
        fields |= {f"r{index}": one_of(f"r{index}", RELATIONS) for index in range(2)}
        fields["place"] = self.place.format(name=one_of("place", [name for row in PLACES for name in row]))
        return sentence.format(**fields)


ENGLISH = Language(
    mention="a {size} {colour} {shape}",
    place="at the {name}",
    wordings=(
        ("{a} {place}", "{a} {r0} {b}", "{a} {r0} {b} and {r1} {c}"),
        ("there is {a} {place}", "there is {a} {r0} {b}", "there is {a} {r0} {b} which is {r1} {c}"),
        ("{a} lies {place}", "{a} lies {r0} {b}", "{a} lies {r0} {b} and also {r1} {c}"),
        ("{place} we see {a}", "{r0} {b} we see {a}", "{r0} {b} and {r1} {c} we see {a}"),
        ("this is {a} and it is {place}", "this is {a} and it is {r0} {b}", "this is {a} {r0} {b} {r1} {c}"),
    ),
)


def _related(first: SceneObject, relation: str, second: SceneObject) -> bool:
    (row, column), (other_row, other_column) = first.cell, second.cell
    return {
        "left of": column < other_column,
        "right of": column > other_column,
        "above": row < other_row,
        "below": row > other_row,
    }[relation]


def statements(scene: Scene) -> list[Statement]:
    """Choose what the captions of a scene say, one statement for each wording, whatever the language.

    Each names all objects, in an order of its own, and gives a true relation for each link of its wording, chosen
    where two objects lie diagonally.

    Args:
        scene: A scene of 3 x 3 cells with at most three objects.

    Returns:
        As many statements as ``LINKS`` has entries, the same each time.

    Raises:
        ValueError: If the scene has another grid or more than three objects.
    """
    if scene.grid != 3 or not 1 <= len(scene.objects) <= 3:
        got = f"{scene.grid} x {scene.grid} cells and {len(scene.objects)} objects"
        fix = "make scenes with side=64, grid=3, objects=(1, 3)"
        raise ValueError(explain("describe", "scene", "one of 3 x 3 cells with 1 to 3 objects", got, fix))
    rng = np.random.RandomState([scene.seed, scene.number, 2])
    return [_make_statement(scene, links, rng) for links in LINKS]


def _make_statement(scene: Scene, links: tuple[tuple[int, int], ...], rng: np.random.RandomState) -> Statement:
    order = list(scene.objects)
    for index in range(len(order) - 1, 0, -1):  # Fisher and Yates
        other = draw(rng, 0, index)
        order[index], order[other] = order[other], order[index]
    mentions = tuple(Mention(item.size, item.colour, item.shape) for item in order)
    if len(order) == 1:
        return Statement(mentions, place=order[0].cell)
    relations = []
    for first, second in links[: len(order) - 1]:
        true = [relation for relation in RELATIONS if _related(order[first], relation, order[second])]
        relations.append((first, true[draw(rng, 0, len(true) - 1)], second))
    return Statement(mentions, tuple(relations))


def describe(scene: Scene, language: Language = ENGLISH) -> list[str]:
    """Say what a scene shows, once in each wording; all objects, all their attributes and how they lie.

    Args:
        scene: A scene of 3 x 3 cells with at most three objects.
        language: Words and sentences to use.

    Returns:
        Five captions, the same each time.

    Raises:
        ValueError: If the scene has another grid or more than three objects.

    Example:
        >>> from cs_transformers.data.scenes import make_scenes
        >>> describe(make_scenes(1, seed=231)[0])[0]
        'a small green diamond at the bottom right'
    """
    return [language.say(statement, wording) for wording, statement in enumerate(statements(scene))]


def parse_caption(text: str, language: Language = ENGLISH) -> Statement | None:
    """Read a caption back; the grammar is exactly what ``describe`` can say.

    Args:
        text: A caption, with or without <START>, <END> and <NULL> around it; letter case and blanks do not matter.
        language: Words and sentences it is written in.

    Returns:
        What the caption says, or None when it is not one of the sentences.

    Example:
        >>> parse_caption("a small red circle at the top").place
        (0, 1)
        >>> parse_caption("a red circle small at the top") is None
        True
    """
    words = text.lower().split()
    while words and words[-1] == "<null>":
        words.pop()
    words = words[1 if words[:1] == ["<start>"] else 0 : -1 if words[-1:] == ["<end>"] else None]
    sentence = " ".join(words)
    for wording, pattern in language.patterns:
        match = pattern.fullmatch(sentence)
        if match is None:
            continue
        found = match.groupdict()
        letters = [letter for letter in "abc" if f"{letter}_shape" in found]
        mentions = tuple(
            Mention(found[f"{letter}_size"], found[f"{letter}_colour"], found[f"{letter}_shape"]) for letter in letters
        )
        if "place" in found:
            return Statement(mentions, place=_CELL_OF[found["place"]])
        links = enumerate(LINKS[wording][: len(letters) - 1])
        return Statement(mentions, tuple((first, found[f"r{k}"], second) for k, (first, second) in links))
    return None


def caption_is_true(text: str, scene: Scene, language: Language = ENGLISH) -> bool:
    """Decide whether a caption is true: every object named once, every stated attribute and relation as in the scene.

    Args:
        text: A caption; one that cannot be parsed is not true.
        scene: The scene it is held against.
        language: Words and sentences it is written in.

    Returns:
        True if some assignment of the named objects to the scene's objects makes the whole statement true.

    Example:
        >>> from cs_transformers.data.scenes import make_scenes
        >>> scene = make_scenes(1, seed=231)[0]
        >>> [caption_is_true(text, scene) for text in (describe(scene)[4], "a small red circle at the top")]
        [True, False]
    """
    statement = parse_caption(text, language)
    if statement is None or len(statement.mentions) != len(scene.objects):
        return False
    return any(_holds(statement, order) for order in permutations(scene.objects))


def _holds(statement: Statement, order: tuple[SceneObject, ...]) -> bool:
    named = all(
        (mention.size, mention.colour, mention.shape) == (item.size, item.colour, item.shape)
        for mention, item in zip(statement.mentions, order, strict=True)
    )
    placed = statement.place is None or statement.place == order[0].cell
    return named and placed and all(_related(order[i], relation, order[j]) for i, relation, j in statement.relations)


def caption_accuracy(captions: Sequence[str], scenes: Sequence[Scene], language: Language = ENGLISH) -> float:
    """Measure a captioner: the share of captions that are true of their scenes.

    Args:
        captions: One caption for each scene.
        scenes: The scenes.
        language: Words and sentences the captions are written in.

    Returns:
        A fraction from 0 to 1.

    Raises:
        ValueError: If the lengths differ or are 0.
    """
    if len(captions) != len(scenes) or not len(scenes):
        got = f"{len(captions)} captions and {len(scenes)} scenes"
        expected = "one for each of at least one scene"
        raise ValueError(explain("caption_accuracy", "captions", expected, got, "pass two lists of equal length"))
    return sum(caption_is_true(text, scene, language) for text, scene in zip(captions, scenes, strict=True)) / len(
        scenes
    )
