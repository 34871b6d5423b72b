"""Scenes in German, wording for wording: the smallest language in which words must agree.

A German noun has a gender, and a place in the sentence asks for a case. Article, adjectives, pronouns and relative
pronouns follow both: *ein kleiner roter Kreis* lies there, we see *einen kleinen roten Kreis*, something is left of
*einem kleinen roten Kreis*. English shows nothing of this, so a translator must infer it from the words around.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from cs_transformers.data.scene_language import LINKS, Mention, Statement, describe, statements
from cs_transformers.data.scenes import Scene, make_scenes
from cs_transformers.errors import explain

NOUNS = {  # shape -> noun and gender
    "circle": ("Kreis", "m"),
    "square": ("Quadrat", "n"),
    "triangle": ("Dreieck", "n"),
    "cross": ("Kreuz", "n"),
    "diamond": ("Raute", "f"),
}
STEMS = {
    "small": "klein",
    "large": "groß",
    "red": "rot",
    "yellow": "gelb",
    "green": "grün",
    "blue": "blau",
    "purple": "violett",
    "white": "weiß",
}
CASES = ("nominative", "accusative", "dative")
ARTICLES = {"m": ("ein", "einen", "einem"), "f": ("eine", "eine", "einer"), "n": ("ein", "ein", "einem")}
ENDINGS = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en")}  # of adjectives, by case
PRONOUNS = {"m": "er", "f": "sie", "n": "es"}
RELATIVES = {"m": "der", "f": "die", "n": "das"}
RELATIONS = {"left of": "links von", "right of": "rechts von", "above": "über", "below": "unter"}  # all with the dative
PLACE_NAMES = (
    ("oben links", "oben", "oben rechts"),
    ("links", "in der Mitte", "rechts"),
    ("unten links", "unten", "unten rechts"),
)
WORDINGS = (
    ("{a.nominative} {place}", "{a.nominative} {r0} {b.dative}", "{a.nominative} {r0} {b.dative} und {r1} {c.dative}"),
    (
        "es gibt {a.accusative} {place}",
        "es gibt {a.accusative} {r0} {b.dative}",
        "es gibt {a.accusative} {r0} {b.dative}, {b.relative} {r1} {c.dative} liegt",
    ),
    (
        "{a.nominative} liegt {place}",
        "{a.nominative} liegt {r0} {b.dative}",
        "{a.nominative} liegt {r0} {b.dative} und auch {r1} {c.dative}",
    ),
    (
        "{place} sehen wir {a.accusative}",
        "{r0} {b.dative} sehen wir {a.accusative}",
        "{r0} {b.dative} und {r1} {c.dative} sehen wir {a.accusative}",
    ),
    (
        "das ist {a.nominative} und {a.pronoun} ist {place}",
        "das ist {a.nominative} und {a.pronoun} ist {r0} {b.dative}",
        "das ist {a.nominative} {r0} {b.dative} {r1} {c.dative}",
    ),
)
ERROR_KINDS = ("gender", "case", "shape", "colour", "size", "place or relation", "other word", "length")


@dataclass(frozen=True)
class GermanMention:
    """An object in all the forms that a sentence may ask for.

    Args:
        nominative: As a subject, *ein kleiner roter Kreis*.
        accusative: As an object, *einen kleinen roten Kreis*.
        dative: After a preposition of place, *einem kleinen roten Kreis*.
        pronoun: What stands for it later, *er*.
        relative: What begins a relative clause about it, *der*.
    """

    nominative: str
    accusative: str
    dative: str
    pronoun: str
    relative: str


def decline(mention: Mention) -> GermanMention:
    """Put an object into German: the noun decides the gender, the case decides the endings.

    Args:
        mention: The object.

    Returns:
        Its forms.

    Example:
        >>> from cs_transformers.data.scene_language import Mention
        >>> decline(Mention("small", "red", "diamond")).dative
        'einer kleinen roten Raute'
    """
    noun, gender = NOUNS[mention.shape]
    stems = STEMS[mention.size], STEMS[mention.colour]
    forms = {}
    for case, article, ending in zip(CASES, ARTICLES[gender], ENDINGS[gender], strict=True):
        forms[case] = " ".join([article, *(stem + ending for stem in stems), noun])
    return GermanMention(**forms, pronoun=PRONOUNS[gender], relative=RELATIVES[gender])


def say_in_german(statement: Statement, wording: int) -> str:
    """Put a statement into German words.

    Args:
        statement: What to say.
        wording: Which of the five wordings, from 0.

    Returns:
        A sentence without capital at its start and without a full stop, as the English ones.

    Raises:
        ValueError: If there is no such wording.

    Example:
        >>> from cs_transformers.data.scene_language import parse_caption
        >>> say_in_german(parse_caption("at the top we see a small red circle"), 3)
        'oben sehen wir einen kleinen roten Kreis'
    """
    if not 0 <= wording < len(WORDINGS):
        fix = "number the wordings from 0 on"
        raise ValueError(explain("say_in_german", "wording", f"from 0 to {len(WORDINGS) - 1}", wording, fix))
    fields: dict[str, object] = dict(zip("abc", map(decline, statement.mentions), strict=False))
    fields |= {f"r{index}": RELATIONS[relation] for index, (_, relation, _) in enumerate(statement.relations)}
    if statement.place is not None:
        row, column = statement.place
        fields["place"] = PLACE_NAMES[row][column]
    return WORDINGS[wording][len(statement.mentions) - 1].format(**fields)


def describe_in_german(scene: Scene) -> list[str]:
    """Say what a scene shows, once in each wording: sentence i translates sentence i of ``describe``.

    Args:
        scene: A scene of 3 x 3 cells with at most three objects.

    Returns:
        Five captions, the same each time.

    Raises:
        ValueError: If the scene has another grid or more than three objects.

    Example:
        >>> describe_in_german(make_scenes(1, seed=231)[0])[0]
        'eine kleine grüne Raute unten rechts'
    """
    return [say_in_german(statement, wording) for wording, statement in enumerate(statements(scene))]


def scene_pairs(count: int, seed: int, *, first: int = 0) -> list[tuple[str, str]]:
    """Make sentence pairs from scenes, five for each.

    Args:
        count: Number of scenes.
        seed: Seed of the series of scenes.
        first: Number of the first scene of the series.

    Returns:
        5 * count pairs (English, German).

    Example:
        >>> scene_pairs(1, seed=231)[3]
        ('at the bottom right we see a small green diamond', 'unten rechts sehen wir eine kleine grüne Raute')
    """
    scenes = make_scenes(count, seed, first=first)
    return [pair for scene in scenes for pair in zip(describe(scene), describe_in_german(scene), strict=True)]


def parse_german(text: str) -> tuple[Statement, int] | None:
    """Read a German caption back; only what ``say_in_german`` can say, with every ending right, is understood.

    Args:
        text: A caption; blanks do not matter.

    Returns:
        What it says and its wording, or None when it is not one of the sentences or a word does not agree.

    Example:
        >>> parse_german("oben sehen wir einen kleinen roten Kreis")[0].place
        (0, 1)
        >>> parse_german("oben sehen wir ein kleiner roter Kreis") is None
        True
    """
    sentence = re.sub(r"\s+(?=,)", "", " ".join(text.split()))
    for wording, pattern in _patterns():
        match = pattern.fullmatch(sentence)
        if match is None:
            continue
        statement = _statement(match.groupdict(), LINKS[wording])
        if say_in_german(statement, wording) == sentence:
            return statement, wording
    return None


def translation_errors(written: str, reference: str) -> Counter[str]:
    """Say what is wrong with a translation of a caption, by kind.

    Words are compared place by place. A wrong article or ending that the noun has in another case is an error of
    *case*, one that it never has an error of *gender*; so is a wrong pronoun.

    Args:
        written: The translation.
        reference: The right one.

    Returns:
        How often each of ``ERROR_KINDS`` occurs; empty for a right translation. Sentences of different lengths are
        one error of *length* and are not compared further.

    Example:
        >>> right = "es gibt einen kleinen roten Kreis oben"
        >>> translation_errors("es gibt eine kleinen roter Kreuz oben", right)
        Counter({'gender': 1, 'case': 1, 'shape': 1})
    """
    found, wanted = _words(written), _words(reference)
    if len(found) != len(wanted):
        return Counter(["length"])
    nouns = dict(NOUNS.values())
    errors: Counter[str] = Counter()
    for place, (word, right) in enumerate(zip(found, wanted, strict=True)):
        if word != right:
            gender = next((nouns[later] for later in wanted[place:] if later in nouns), "")
            errors[_kind(word, right, gender)] += 1
    return errors


def count_errors(written: Sequence[str], references: Sequence[str]) -> dict[str, int]:
    """Count over many captions how many translations have at least one error of each kind.

    Args:
        written: The translations.
        references: The right ones.

    Returns:
        "wrong", the number of translations that are not exact, then the number for each of ``ERROR_KINDS``.

    Raises:
        ValueError: If the lengths differ.
    """
    if len(written) != len(references):
        got, fix = f"{len(written)} and {len(references)}", "pass two lists of equal length"
        raise ValueError(explain("count_errors", "written", "one for each reference", got, fix))
    errors = [translation_errors(one, right) for one, right in zip(written, references, strict=True)]
    return {"wrong": sum(map(bool, errors)), **{kind: sum(kind in one for one in errors) for kind in ERROR_KINDS}}


def _words(text: str) -> list[str]:
    return text.replace(",", " , ").split()


def _kind(word: str, right: str, gender: str) -> str:
    pronouns, relatives = set(PRONOUNS.values()), set(RELATIVES.values())
    if any({word, right} <= group for group in (pronouns, relatives)):
        return "gender"
    if right.startswith("ein") and word.startswith("ein"):
        return "case" if word in ARTICLES[gender] else "gender"
    stems = {stem: name for name, stem in STEMS.items()}
    stem, found = (next((one for one in stems if text.startswith(one)), "") for text in (right, word))
    if stem and stem == found:
        return "case" if word.removeprefix(stem) in ENDINGS[gender] else "gender"
    if stem and found:
        return "size" if stems[stem] in ("small", "large") else "colour"
    if right in {noun for noun, _ in NOUNS.values()}:
        return "shape"
    spots = {part for name in [*RELATIONS.values(), *(n for row in PLACE_NAMES for n in row)] for part in name.split()}
    return "place or relation" if right in spots else "other word"


@cache
def _patterns() -> tuple[tuple[int, re.Pattern[str]], ...]:
    """Pairs of a wording and a regular expression of one of its sentences, which does not look at endings."""
    return tuple(
        (wording, re.compile(_pattern(sentence)))
        for wording, sentences in enumerate(WORDINGS)
        for sentence in sentences
    )


def _pattern(sentence: str) -> str:
    def one_of(group: str, words: Sequence[str]) -> str:
        return f"(?P<{group}>{'|'.join(sorted(words, key=len, reverse=True))})"

    fields: dict[str, object] = {}
    for letter in "abc":
        size = one_of(f"{letter}_size", [STEMS[name] for name in ("small", "large")])
        colour = one_of(f"{letter}_colour", [STEMS[name] for name in list(STEMS)[2:]])
        shape = one_of(f"{letter}_shape", [noun for noun, _ in NOUNS.values()])
        mention = rf"\w+ {size}\w+ {colour}\w+ {shape}"
        fields[letter] = GermanMention(mention, mention, mention, r"\w+", r"\w+")
    fields |= {f"r{index}": one_of(f"r{index}", list(RELATIONS.values())) for index in range(2)}
    fields["place"] = one_of("place", [name for row in PLACE_NAMES for name in row])
    return sentence.format(**fields)


def _statement(found: dict[str, str], links: Sequence[tuple[int, int]]) -> Statement:
    english = {noun: shape for shape, (noun, _) in NOUNS.items()} | {stem: name for name, stem in STEMS.items()}
    letters = [letter for letter in "abc" if f"{letter}_shape" in found]
    mentions = tuple(
        Mention(*(english[found[f"{letter}_{part}"]] for part in ("size", "colour", "shape"))) for letter in letters
    )
    if "place" in found:
        cells = {name: (row, column) for row, names in enumerate(PLACE_NAMES) for column, name in enumerate(names)}
        return Statement(mentions, place=cells[found["place"]])
    relations = {german: name for name, german in RELATIONS.items()}
    joined = enumerate(links[: len(letters) - 1])
    return Statement(mentions, tuple((one, relations[found[f"r{index}"]], other) for index, (one, other) in joined))
