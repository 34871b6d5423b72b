"""Translation recipes: figures are what they say, what is kept comes back, a small set is learnt by heart."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.data.scene_german import scene_pairs
from cs_transformers.data.sentence_pairs import PairDataset
from cs_transformers.data.tokens import BytePairTokenizer, WordTokenizer
from cs_transformers.training import recipes_translation
from cs_transformers.training.checkpoints import load_checkpoint, save_checkpoint
from cs_transformers.training.config import FitConfig
from cs_transformers.training.loop import fit
from cs_transformers.training.metrics import bleu
from cs_transformers.training.recipes_translation import (
    DATA,
    TranslationRecipe,
    Translator,
    make_tokenizers,
    recipe_pairs,
    token_figures,
    train_translator,
    translation_loss,
    translation_recipe,
    translation_scores,
)
from cs_transformers.translation import label_smoothing_loss

PAIRS, VAL = scene_pairs(12, seed=3), scene_pairs(4, seed=4)
SMALL = {"width": 16, "num_heads": 2, "num_layers": 1, "dim_feedforward": 24, "lower": False, "max_length": 40}


def small(**changes: object) -> TranslationRecipe:
    settings = {"steps": 4, "batch_size": 8, "evaluate_every": 2, "progress": False, **changes}
    return TranslationRecipe(**SMALL, fit=FitConfig(**settings))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return train_translator(small(), pairs=PAIRS, val_pairs=VAL)


@pytest.mark.parametrize("data", [*DATA, "a/folder"])
def test_recipes_take_changes_and_short_runs(data: str) -> None:
    recipe = translation_recipe(data, steps=7, seed=5)
    assert (recipe.data, recipe.fit.steps, recipe.fit.seed) == (data, 7, 5)
    assert recipe.fit.warmup_steps(7) <= 7
    assert recipe.fit.monitor == "val_loss"


def test_an_unknown_kind_of_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tokens must be one of 'words', 'byte pairs', got 'letters'"):
        TranslationRecipe(tokens="letters")


def test_held_out_captions_do_not_occur_in_training() -> None:
    recipe = TranslationRecipe(scenes=60)
    train, val, test = (set(recipe_pairs(recipe, split)) for split in ("train", "val", "test"))
    assert not train & val
    assert not train & test
    assert min(len(val), len(test)) > 500
    with pytest.raises(ValueError, match=r"split must be one of 'train', 'val', 'test', got 'dev'"):
        recipe_pairs(recipe, "dev")


def test_each_language_has_words_of_its_own_and_byte_pairs_are_common() -> None:
    pytest.importorskip("tokenizers")
    source, target = make_tokenizers(small(), PAIRS)
    assert isinstance(source, WordTokenizer)
    assert "circle" in source.ids
    assert "Kreis" in target.ids
    assert source.encode("Circle") == source.encode("circle")  # whoever types a sentence begins it with a capital
    source, target = make_tokenizers(replace(small(), tokens="byte pairs", vocab_size=90), PAIRS)
    assert isinstance(source, BytePairTokenizer)
    assert source is target


def test_neither_torchtext_nor_spacy_is_needed() -> None:
    """The tutorials' data and tokenizers went away with both; sentences and tokens here come without them."""
    package = Path(recipes_translation.__file__).parents[1]
    imports = re.compile(r"^\s*(import|from) (torchtext|spacy)", re.MULTILINE)
    assert not [path for path in package.rglob("*.py") if imports.search(path.read_text(encoding="utf-8"))]


def test_the_loop_reads_batches_of_like_length() -> None:
    words = WordTokenizer.build([text for pair in PAIRS for text in pair], lower=False)
    data, shares = PairDataset(PAIRS * 4, words, words), []

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        shares.append((batch[0] == 0).double().mean().item())
        return translation_loss()(model, batch)[0]

    fit(Fixed(len(words)), data, loss=loss, config=FitConfig(epochs=1, batch_size=8, progress=False))
    assert len(shares) == 30
    assert sum(shares) / 30 < 0.15 < data.padding_share([torch.arange(240)])


class Fixed(nn.Module):
    """A model that gives the same logits whatever it reads."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        table = torch.randn(100, vocabulary, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.table = nn.Parameter(table)

    def forward(self, _src: Tensor, tgt: Tensor) -> Tensor:
        return self.table[tgt]


def test_the_loss_reads_all_but_the_last_word_and_wants_all_but_the_first() -> None:
    model, tgt = Fixed(9), torch.tensor([[1, 5, 6, 2, 0], [1, 4, 2, 0, 0]])
    loss, metrics = translation_loss(0.1)(model, (tgt, tgt))
    expected = label_smoothing_loss(model.table[tgt[:, :-1]], tgt[:, 1:], smoothing=0.1)
    torch.testing.assert_close(loss, expected, rtol=0, atol=0)
    right = [int(model.table[read].argmax()) == word for read, word in [(1, 5), (5, 6), (6, 2), (1, 4), (4, 2)]]
    assert metrics["token_accuracy"].item() == pytest.approx(sum(right) / 5)


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_perplexity_counts_every_word_once_whatever_the_batches(batch_size: int) -> None:
    words = WordTokenizer.build([text for pair in PAIRS for text in pair], lower=False)
    data, model = PairDataset(PAIRS, words, words, sort=True), Fixed(len(words))
    read = torch.cat([row[1][:-1] for row in data.rows])
    wanted = torch.cat([row[1][1:] for row in data.rows])
    figures = token_figures(model, data, batch_size=batch_size)
    expected = F.cross_entropy(model.table[read], wanted).item()
    assert figures["val_loss"] == pytest.approx(expected, rel=1e-9)
    assert figures["val_perplexity"] == pytest.approx(torch.tensor(expected).exp().item(), rel=1e-5)
    right = (model.table[read].argmax(dim=1) == wanted).double().mean().item()
    assert figures["val_token_accuracy"] == pytest.approx(right)


# ---------------------------------------------------------------- BLEU


@pytest.mark.parametrize("tokenize", ["none", "13a"])
def test_bleu_equals_sacrebleus_own_command(tokenize: str, tmp_path: Path) -> None:
    written = ["ein kleiner roter kreis liegt oben .", "das ist ein kreuz, rechts", "oben", "zwei worte hier"]
    right = ["ein kleiner roter kreis liegt unten .", "das ist ein kreuz, links", "oben", "drei ganz andere worte"]
    for name, lines in (("written", written), ("right", right)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = [
        str(tmp_path / "right"),
        "-i",
        str(tmp_path / "written"),
        "-tok",
        tokenize,
        "--force",
        "-b",
        "-w",
        "10",
    ]
    command = [sys.executable, "-m", "sacrebleu", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert bleu(written, right, tokenize=tokenize) == pytest.approx(float(told.stdout), abs=1e-8)


@pytest.mark.parametrize(
    ("written", "right"),
    [([""], ["a b"]), (["a"], ["a b c d e f g h i"]), (["x y"], ["a b"]), (["a"], [""])],
)
def test_bleu_of_next_to_nothing_is_a_number_near_zero(written: list[str], right: list[str]) -> None:
    assert 0 <= bleu(written, right) < 1e-2 or written == ["x y"]
    assert bleu(["a b c d"], ["a b c d"]) == pytest.approx(100.0)


def test_scores_are_those_of_what_is_written(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    right = [pair[1] for pair in VAL]
    written = right[:10] + ["oben"] * 10
    monkeypatch.setattr(Translator, "translate", lambda _self, _texts, **_: written)
    scores = translation_scores(translator, VAL)
    assert scores["exact"] == 0.5
    words = [[text.replace(",", " ,") for text in side] for side in (written, right)]
    assert scores["bleu"] == pytest.approx(bleu(*words))
    assert scores["bleu_13a"] == pytest.approx(bleu(written, right, tokenize="13a"))


# ---------------------------------------------------------------- training and keeping


def test_training_watches_perplexity_and_keeps_the_best(translator: Translator) -> None:
    rows = translator.history.rows
    assert [row["step"] for row in rows] == [2, 4]
    assert {"train_loss", "train_token_accuracy", "val_loss", "val_perplexity", "val_token_accuracy"} <= set(rows[0])
    assert {"circle", "there"} & translator.known["en"]
    assert "kreis" in translator.known["de"]
    data = PairDataset(VAL, translator.source, translator.target, sort=True)
    assert token_figures(translator.model, data)["val_loss"] == pytest.approx(min(row["val_loss"] for row in rows))


def test_an_interrupted_training_goes_on_to_the_same_weights(tmp_path: Path, translator: Translator) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_translator(small(), pairs=PAIRS, val_pairs=VAL, folder=tmp_path, on_record=stop)
    resumed = train_translator(small(), pairs=PAIRS, val_pairs=VAL, folder=tmp_path, resume=True)
    for name, value in translator.model.state_dict().items():
        torch.testing.assert_close(resumed.model.state_dict()[name], value, rtol=0, atol=0)


def test_training_stops_where_validation_no_longer_improves() -> None:
    recipe = small(steps=400, learning_rate=0.5, clip_norm=None, evaluate_every=1, patience=2)
    found = train_translator(recipe, pairs=PAIRS, val_pairs=VAL)
    rows = found.history.rows
    assert len(rows) < 400
    assert rows.index(found.history.best("val_loss")) == len(rows) - 3


def test_a_translator_comes_back_from_its_file(tmp_path: Path, translator: Translator) -> None:
    save_checkpoint(tmp_path / "translator.pt", translator.state())
    again = Translator.from_state(load_checkpoint(tmp_path / "translator.pt"))
    texts = [pair[0] for pair in VAL[:6]]
    assert again.translate(texts) == translator.translate(texts)
    assert again.translate(texts, beam_size=3) == translator.translate(texts, beam_size=3)
    assert again.known == translator.known
    assert not again.model.training
    with pytest.raises(ValueError, match=r"state must be a translator's, got one without known, model"):
        Translator.from_state({"recipe": {}, "source": {}, "target": {}})


def test_translations_keep_the_order_of_the_sentences(translator: Translator) -> None:
    texts = [pair[0] for pair in VAL[:7]]
    together = translator.translate(texts, batch_size=3)
    assert together == [translator.translate([text])[0] for text in texts]
    assert translator.translate([]) == []


def test_no_word_is_written_as_unknown(translator: Translator) -> None:
    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        model.output.bias[3] += 50.0
    eager = replace(translator, model=model)
    assert not any("<UNK>" in text for text in eager.translate([pair[0] for pair in VAL[:4]]))
    assert "<UNK>" not in eager.alignment(VAL[0][0])[1]


def test_alignment_has_a_row_for_each_word_written_and_a_column_for_each_read(translator: Translator) -> None:
    text = VAL[0][0]
    read, written, weights = translator.alignment(text)
    assert read == ["<START>", *text.split(), "<END>"]
    assert weights.shape == (2, len(written), len(read))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, len(written)))
    joined = " ".join(word for word in written if word != "<END>")
    assert joined.replace(" ,", ",") == translator.translate([text])[0].replace(" ,", ",")[: len(joined)]


@pytest.mark.learning
def test_a_handful_of_sentences_is_learnt_by_heart() -> None:
    """The short form of the benchmark: 40 pairs, 150 updates."""
    pairs = scene_pairs(8, seed=11)
    recipe = replace(
        translation_recipe("scenes", steps=150, batch_size=20, evaluate_every=150, learning_rate=3e-3),
        width=64, num_layers=1, dim_feedforward=128,
    )  # fmt: skip
    learnt = train_translator(recipe, pairs=pairs, val_pairs=pairs)
    assert translation_scores(learnt, pairs)["bleu"] >= 90
