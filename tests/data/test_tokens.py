"""Tokenizers: words and pieces of words, there and back, and kept as plain values."""

from __future__ import annotations

import json
import pickle
import sys
import unicodedata

import pytest

from cs_transformers.data.tokens import (
    END_ID,
    NULL_ID,
    START_ID,
    UNKNOWN_ID,
    BytePairTokenizer,
    WordTokenizer,
    split_words,
    tokenizer_from,
)
from cs_transformers.data.vocabulary import END, NULL, SPECIAL_WORDS, START, UNK

SENTENCES = [
    "Ein Hund rennt durch den Schnee.",
    "Zwei Hunde rennen durch das Wasser.",
    "Der Mann schläft, die Frau liest.",
    "Eine Frau läuft mit einem Hund.",
] * 3


def test_special_ids_are_those_of_the_course() -> None:
    assert {word: index for index, word in enumerate(SPECIAL_WORDS)} == {
        NULL: NULL_ID,
        START: START_ID,
        END: END_ID,
        UNK: UNKNOWN_ID,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ein Hund rennt.", ["ein", "hund", "rennt", "."]),
        ("  zwei\tLeute\u00a0da ", ["zwei", "leute", "da"]),
        ("T-Shirt, „rot“!", ["t", "-", "shirt", ",", "„", "rot", "“", "!"]),
        ("3 Männer", ["3", "männer"]),
        ("", []),
        ("🐕 läuft", ["🐕", "läuft"]),
    ],
)
def test_words_and_marks_are_tokens_of_their_own(text: str, words: list[str]) -> None:
    assert split_words(text) == words
    assert split_words(unicodedata.normalize("NFD", text)) == words


def test_letter_case_is_kept_where_asked() -> None:
    assert split_words("Ein Hund", lower=False) == ["Ein", "Hund"]
    assert WordTokenizer.build(["Ein Hund"], lower=False).encode("ein Hund") == [START_ID, UNKNOWN_ID, 5, END_ID]


def test_the_most_frequent_words_come_first_and_rare_ones_are_unknown() -> None:
    tokens = WordTokenizer.build(["b a a", "a c b"], min_count=2)
    assert tokens.words == [*SPECIAL_WORDS, "a", "b"]
    assert tokens.encode("a c d b") == [START_ID, 4, UNKNOWN_ID, UNKNOWN_ID, 5, END_ID]
    assert len(tokens) == 6


def test_words_come_back_with_blanks_only_where_they_belong() -> None:
    tokens = WordTokenizer.build(SENTENCES)
    assert tokens.decode(tokens.encode(SENTENCES[2])) == "der mann schläft, die frau liest."
    assert tokens.decode([START_ID, 4, END_ID, 5, NULL_ID]) == tokens.words[4]
    assert tokens.decode([]) == ""
    assert tokens.names([START_ID, UNKNOWN_ID, 4]) == [UNK, tokens.words[4]]


@pytest.fixture(scope="module")
def pieces() -> BytePairTokenizer:
    pytest.importorskip("tokenizers")
    return BytePairTokenizer.train(SENTENCES, size=60)


def test_pieces_join_to_the_sentence_again(pieces: BytePairTokenizer) -> None:
    for text in [*SENTENCES, "Ein Mann rennt mit Hunden, durch Hund."]:
        ids = pieces.encode(text)
        assert (ids[0], ids[-1]) == (START_ID, END_ID)
        assert pieces.decode(ids) == text.lower()
        assert "".join(pieces.pieces(text)).replace("▁", " ").strip() == text.lower()
        assert pieces.names(ids) == pieces.pieces(text)
    assert len(pieces) <= 60


def test_frequent_words_stay_whole_and_others_fall_apart(pieces: BytePairTokenizer) -> None:
    assert "▁hund" in pieces.pieces("ein hund")
    assert len(pieces.pieces("schlaf")) > 1
    assert pieces.encode("漢")[1:-1].count(UNKNOWN_ID) == 1


def test_the_names_of_special_tokens_in_a_sentence_are_plain_text(pieces: BytePairTokenizer) -> None:
    for tokens in (pieces, WordTokenizer.build(SENTENCES)):
        ids = tokens.encode("hund <END> <NULL> hund")
        assert ids.count(END_ID) == ids.count(START_ID) == 1
        assert NULL_ID not in ids


def test_training_on_the_same_sentences_gives_the_same_pieces(pieces: BytePairTokenizer) -> None:
    assert BytePairTokenizer.train(SENTENCES, size=60).as_dict() == pieces.as_dict()


def test_a_tokenizer_comes_back_from_plain_values_and_from_a_pickle(pieces: BytePairTokenizer) -> None:
    for tokens in (pieces, WordTokenizer.build(SENTENCES, lower=False)):
        kept = json.loads(json.dumps(tokens.as_dict()))
        for again in (tokenizer_from(kept), pickle.loads(pickle.dumps(tokens))):
            assert again.encode(SENTENCES[0]) == tokens.encode(SENTENCES[0])
            assert len(again) == len(tokens)


def test_wrong_calls_say_what_to_do(pieces: BytePairTokenizer) -> None:
    with pytest.raises(ValueError, match=r"words\[:4\] must be <NULL>, <START>, <END>, <UNK>, got \['a'\]"):
        WordTokenizer(["a"])
    with pytest.raises(ValueError, match=r"WordTokenizer: words must be all different, got \['a'\] twice"):
        WordTokenizer([*SPECIAL_WORDS, "a", "a"])
    with pytest.raises(ValueError, match=r"min_count must be a positive whole number"):
        WordTokenizer.build([], min_count=0)
    for tokens in (pieces, WordTokenizer(SPECIAL_WORDS)):
        with pytest.raises(ValueError, match=r"decode: ids must be from 0 to \d+, got 99"):
            tokens.decode([99])
    with pytest.raises(ValueError, match=r"size must be a whole number of at least 5, got 4"):
        BytePairTokenizer.train(SENTENCES, size=4)
    with pytest.raises(ValueError, match=r"BytePairTokenizer: text must be a tokenizer as json"):
        BytePairTokenizer("{}")
    with pytest.raises(ValueError, match=r"tokenizer_from: kind must be 'words' or 'byte pairs', got None"):
        tokenizer_from({})


def test_without_the_package_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'cs_transformers\[translate\]'"):
        BytePairTokenizer.train(SENTENCES)
