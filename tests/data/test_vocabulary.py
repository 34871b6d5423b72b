from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.vocabulary import SPECIAL_WORDS, Vocabulary, tokenize

SENTENCES = ["강아지가 풀밭을 달린다", "犬が 草の 上を 走る", "a dog 🐕 runs", "ein großer Hund läuft"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "A child in a pink dress is climbing up a set of stairs .",
            "a child in a pink dress is climbing up a set of stairs",
        ),
        ("dog,cat;bird... (two) \"words\" and 'quotes'", "dog cat bird two words and quotes"),
        ("The man's t-shirt - isn\u2019t it?", "the man's t-shirt isn\u2019t it"),
        ("100% of $5 & more", "100 of $5 more"),
        ("ÄRGER Straße", "ärger straße"),
        ("강아지, 풀밭!", "강아지 풀밭"),
        ("「犬」が 走る。", "犬 が 走る"),
        ("a 🐕 runs", "a 🐕 runs"),
        ("  \t\n ", ""),
        ("- ' -", ""),
    ],
)
def test_a_sentence_becomes_these_words(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


def test_composed_and_decomposed_letters_are_the_same_word() -> None:
    for text in ("강아지", "größe", "が"):
        assert tokenize(unicodedata.normalize("NFD", text)) == tokenize(text) == [text]


def test_the_special_words_have_stanfords_ids() -> None:
    words = Vocabulary.build(["a dog"])
    assert [words.word_to_idx[name] for name in ("<NULL>", "<START>", "<END>", "<UNK>")] == [0, 1, 2, 3]


def test_words_are_ranked_by_count_then_alphabet_whatever_the_order_of_captions() -> None:
    captions = ["b a c", "c d", "c a"]
    for order in (captions, captions[::-1]):
        assert Vocabulary.build(order).idx_to_word[4:] == ["c", "a", "b", "d"]
    assert Vocabulary.build(captions, min_count=2).idx_to_word[4:] == ["c", "a"]
    assert Vocabulary.build(captions, max_size=5).idx_to_word == [*SPECIAL_WORDS, "c"]


def test_a_row_is_start_words_end_and_padding() -> None:
    words = Vocabulary.build(["a dog runs"])
    row = words.encode("A dog sleeps .", length=7)
    assert row.dtype == np.int32
    assert row.tolist() == [1, words.word_to_idx["a"], words.word_to_idx["dog"], 3, 2, 0, 0]
    assert words.encode("a dog runs a dog", length=4).tolist()[-1] == 2, "a cut caption still ends"
    assert words.encode("", length=3).tolist() == [1, 2, 0]


def test_a_caption_cannot_smuggle_special_words_in() -> None:
    words = Vocabulary.build(["a <END> dog <NULL>"])
    assert words.encode("a <END> dog", length=6).tolist().count(2) == 1


def test_there_and_back_keeps_the_words() -> None:
    words = Vocabulary.build(SENTENCES)
    for sentence in SENTENCES:
        assert words.decode(words.encode(sentence, 12)) == " ".join(tokenize(sentence))
    assert words.decode([1, 4, 2, 5, 5]) == words.idx_to_word[4]
    assert words.decode([1, 3, 2]) == "<UNK>"


def test_files_are_utf8_in_a_process_whose_locale_is_ascii(tmp_path: Path) -> None:
    here = Vocabulary.build(SENTENCES)
    here.save(tmp_path / "here.json")
    code = (
        "import locale, sys; from pathlib import Path; from cs_transformers.data.vocabulary import Vocabulary;"
        "assert 'utf' not in locale.getpreferredencoding(False).lower();"
        f"folder = Path({str(tmp_path)!r}); words = Vocabulary.load(folder / 'here.json');"
        f"texts = {SENTENCES!a}; assert Vocabulary.build(texts).idx_to_word == words.idx_to_word;"
        "words.save(folder / 'there.json')"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | ascii_only)
    content = (tmp_path / "there.json").read_bytes()
    assert content == (tmp_path / "here.json").read_bytes()
    assert "강아지가" in content.decode("utf-8")


def test_a_file_of_stanfords_form_loads_and_ours_has_that_form(tmp_path: Path) -> None:
    words = [*SPECIAL_WORDS, "a", "on", "of"]
    stanford = {"idx_to_word": words, "word_to_idx": {word: index for index, word in enumerate(words)}}
    (tmp_path / "v.json").write_text(json.dumps(stanford), encoding="utf-8")
    loaded = Vocabulary.load(tmp_path / "v.json")
    assert (loaded.idx_to_word, loaded.word_to_idx) == (stanford["idx_to_word"], stanford["word_to_idx"])
    loaded.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8")) == stanford
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.json", "v.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"idx_to_word": ["<NULL>", "<STA',
        b"[1, 2]",
        b'{"idx_to_word": ["a"], "word_to_idx": {"a": 0}}',
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_file_is_named_with_its_size_and_what_mends_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocab.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError) as caught:
        Vocabulary.load(path, remedy="Type `cst data get words`.")
    assert str(path) in str(caught.value)
    assert f"size {len(content)}" in str(caught.value)
    assert str(caught.value).endswith("Type `cst data get words`.")


def test_two_halves_that_contradict_each_other_are_damage(tmp_path: Path) -> None:
    words = [*SPECIAL_WORDS, "a"]
    content = {"idx_to_word": words, "word_to_idx": dict.fromkeys(words, 0)}
    (tmp_path / "v.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DamagedFileError, match="contradict each other"):
        Vocabulary.load(tmp_path / "v.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the file .*none\.json, there is none\. Do this\.$"):
        Vocabulary.load(tmp_path / "none.json", remedy="Do this.")


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"words\[:4\] must be <NULL>, <START>, <END>, <UNK>, got \['a', 'dog'\]"):
        Vocabulary(["a", "dog"])
    with pytest.raises(ValueError, match=r"words must be all different, got \['a'\] twice; drop the copies"):
        Vocabulary([*SPECIAL_WORDS, "a", "b", "a"])
    with pytest.raises(ValueError, match=r"Vocabulary.build: min_count must be a positive whole number, got 0"):
        Vocabulary.build([], min_count=0)
    with pytest.raises(ValueError, match=r"max_size must be a whole number of at least 4, got 3"):
        Vocabulary.build([], max_size=3)
    with pytest.raises(TypeError, match=r"captions must be several sentences, got one str; put it into a list"):
        Vocabulary.build("a dog")
    with pytest.raises(TypeError, match=r"tokenize: text must be a sentence, got NoneType"):
        tokenize(None)
    words = Vocabulary.build(["a dog"])
    with pytest.raises(ValueError, match=r"Vocabulary.encode: length must be a whole number of at least 2, got 1"):
        words.encode("a", 1)
    for index in (6, -1):
        with pytest.raises(ValueError, match=rf"ids must be from 0 to 5, got {index}; use the vocabulary"):
            words.decode([1, index])
