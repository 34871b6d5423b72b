"""cst train translate and cst translate: from nothing to a translation, and a clear word about what cannot be one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from cs_transformers import cli
from cs_transformers.course import translation
from cs_transformers.data.tokens import WordTokenizer
from cs_transformers.training.checkpoints import save_checkpoint
from cs_transformers.training.recipes_translation import TranslationRecipe, Translator, make_translator

GERMAN = ["ein Hund rennt durch den Schnee .", "eine Frau liest in einem Buch .", "zwei Kinder spielen Ball ."]
ENGLISH = ["a dog runs through the snow .", "a woman reads in a book .", "two children play ball ."]


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(0)
    source, target = WordTokenizer.build(GERMAN), WordTokenizer.build(ENGLISH)
    recipe = TranslationRecipe(source="de", target="en", width=8, num_heads=2, num_layers=1, max_length=12)
    known = {
        language: {word for word in tokens.words if word[0].isalpha()}
        for language, tokens in (("de", source), ("en", target))
    }
    return Translator(make_translator(len(source), len(target), recipe).eval(), source, target, recipe, known)


@pytest.fixture
def folder(tmp_path: Path, translator: Translator) -> Path:
    save_checkpoint(tmp_path / "translator.pt", translator.state())
    return tmp_path


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(cli.app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 2, "", str(result.exception)
    return result.exit_code, result.stdout, result.stderr


def test_a_sentence_is_translated_from_a_checkpoint(folder: Path, translator: Translator) -> None:
    expected = translator.translate([GERMAN[0]], beam_size=4)[0]
    for weights in (folder, folder / "translator.pt"):
        assert call("translate", GERMAN[0], "--weights", str(weights)) == (0, expected + "\n", "")
    assert call("translate", *GERMAN[0].split(), "--weights", str(folder))[1] == expected + "\n"
    greedy = translator.translate([GERMAN[0]])[0]
    assert call("translate", GERMAN[0], "--beams", "1", "--weights", str(folder))[1] == greedy + "\n"


def test_unknown_words_are_named_beside_the_translation(folder: Path) -> None:
    code, _, told = call("translate", "ein Dackel rennt durch den Schnee", "--weights", str(folder))
    assert code == 0
    assert told == "never seen in training, or too rarely: dackel\n"


def test_marks_and_rare_words_that_the_model_has_no_token_for_are_named(translator: Translator) -> None:
    known = {**translator.known, "de": translator.known["de"] | {"katze"}}  # in training, but below min_count
    rare = replace(translator, known=known)
    found = translation.translate("Ein Hund rennt durch den Schnee, eine Katze!", rare)
    assert found.unknown == (",", "katze", "!")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must be a sentence in German, got an empty text; write the sentence in quotes"),
        ("  \n\t ", "got an empty text"),
        ("1234 !!", "got '1234 !!', no word"),
        ("🐕🐕", "got '🐕🐕', no word"),
        (
            "a dog runs through the snow",
            "got 6 words, of which 0 occur in its German training sentences, 6 in the",
        ),
        ("un chien court dans la neige", "got 6 words, of which 0 occur in its German training sentences, 0 in the"),
        ("собака бежит по снегу", "got 4 words, of which 0 occur"),
        ("Aktien fallen, ein Konzern rennt", "got 5 words, of which 2 occur"),
        ("ein Hund rennt durch den Schnee " * 3, "of at most 12 tokens, got 20 with start and end; split it into sent"),
        ("ein \udcff Hund", "got bytes that are no text"),
        ("ein Hund\0", "got bytes that are no text"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_a_reason(text: str, told: str, translator: Translator) -> None:
    with pytest.raises(ValueError, match=r"^translate: the text must be ") as problem:
        translation.translate(text, translator)
    assert told in str(problem.value)


@pytest.mark.parametrize("text", [None, 5, b"ein Hund", ["ein Hund"]])
def test_other_things_than_text_are_a_type_error(text: object, translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"translate: the text must be a sentence in German, got"):
        translation.translate(text, translator)


def test_wrong_input_is_an_error_of_the_command_too(folder: Path) -> None:
    assert "empty text" in call("translate", "", "--weights", str(folder))[2]
    assert "beam_size must be a positive whole number" in call(
        "translate", "ein Hund", "--beams", "0", "--weights", str(folder)
    )[2]  # fmt: skip


def test_without_weights_the_message_says_how_to_train(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected translator.pt in .*cst train translate --out"):
        translation.load_translator(tmp_path / "nothing")
    (tmp_path / "translator.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"damaged or not a checkpoint"):
        translation.load_translator(tmp_path)
    save_checkpoint(tmp_path / "last.pt", {"step": 1, "model": {}})
    with pytest.raises(ValueError, match=r"must be the file of a translator, got .*last.pt, which holds model, step"):
        translation.load_translator(tmp_path / "last.pt")


def test_a_folder_of_sentences_is_trained_kept_and_used(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            (tmp_path / f"{split}.{language}").write_text("\n".join(lines * 8) + "\n", encoding="utf-8")
    pytest.importorskip("tokenizers")
    out = tmp_path / "out"
    code, text, _ = call("train", "translate", "--data", str(tmp_path), "--out", str(out), "--steps", "2")
    assert code == 0
    assert "validation perplexity: " in text
    assert "BLEU of 24 val sentences (sacrebleu, words and marks): " in text
    assert {"translator.pt", "best.pt", "last.pt", "history.csv", "history.png"} <= {one.name for one in out.iterdir()}
    assert call("translate", "ein Hund liest", "--weights", str(out))[0] == 0
    code, _, told = call("train", "translate", "--data", str(tmp_path), "--out", str(out), "--steps", "2")
    assert code == 2
    assert "pass resume=True" in told
    assert call("train", "translate", "--data", str(tmp_path), "--out", str(out), "--steps", "2", "--resume")[0] == 0


def test_sentences_too_long_for_the_model_are_counted_and_the_others_scored(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("sacrebleu")
    for split in ("train", "val"):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            more = [f"{lines[0]} " * 12] if split == "val" else []
            (tmp_path / f"{split}.{language}").write_text("\n".join(lines * 8 + more) + "\n", encoding="utf-8")
    figures = translation.train(str(tmp_path), tmp_path / "out", steps=1, progress=False).figures
    assert figures["not translated"] == "1 val sentences of more than 64 tokens"
    assert "BLEU of 24 val sentences (sacrebleu, words and marks)" in figures


def test_pairs_too_long_to_learn_from_are_counted_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("sacrebleu")
    for split, more in (("train", 2), ("val", 1)):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            rows = lines * 8 + [f"{lines[0]} " * 12] * more
            (tmp_path / f"{split}.{language}").write_text("\n".join(rows) + "\n", encoding="utf-8")
    options = ("--data", str(tmp_path), "--out", str(tmp_path / "out"), "--steps", "1", "--max-length", "50")
    code, text, _ = call("train", "translate", *options)
    assert code == 0
    trained = translation.load_translator(tmp_path / "out")
    assert trained.model.max_length == 50
    longest = max(len(trained.source.encode(" ".join([one] * 12))) for one in (GERMAN[0], ENGLISH[0]))
    told = f"have more than 50 tokens, the longest {longest}; raise --max-length to keep them\n"
    assert f"left out of training: 2 of 26 pairs {told}" in text
    assert f"left out of validation: 1 of 25 pairs {told}" in text


@pytest.mark.parametrize(("length", "error"), [(1, ValueError), ("64", TypeError)])
def test_a_length_that_holds_no_sentence_is_refused(length: object, error: type, tmp_path: Path) -> None:
    with pytest.raises(error, match=r"train: max_length must be a whole number of at least 2"):
        translation.train("scenes", tmp_path, max_length=length, steps=1)


def test_without_sacrebleu_training_says_what_was_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    for split in ("train", "val"):
        for language, lines in (("de", GERMAN), ("en", ENGLISH)):
            (tmp_path / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(translation, "find_spec", lambda _: None)
    outcome = translation.train(str(tmp_path), tmp_path / "out", steps=1)
    assert outcome.figures["BLEU"].endswith("pip install 'cs_transformers[score]'")
