"""Recipes for translation: scenes into German, and the captions of Multi30k, short ones or all.

A recipe names the sentences, the tokens, the sizes of the model and the settings of the loop. What comes out is a
``Translator``: model and tokenizers in one, which takes text and gives text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.data.scene_german import scene_pairs
from cs_transformers.data.sentence_pairs import PairDataset, Pairs, load_multi30k, read_pairs, short_pairs
from cs_transformers.data.tokens import (
    END_ID,
    NULL_ID,
    START_ID,
    UNKNOWN_ID,
    BytePairTokenizer,
    Tokenizer,
    WordTokenizer,
    split_words,
    tokenizer_from,
)
from cs_transformers.errors import check_choice, explain
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction, eval_mode
from cs_transformers.training.history import History
from cs_transformers.training.loop import fit
from cs_transformers.training.metrics import bleu, exact_match
from cs_transformers.translation import TranslationTransformer, label_smoothing_loss

DATA = ("scenes", "multi30k-short", "multi30k")
TRAIN_SEED, VAL_SEED = 231, 1_000_234  # series of scenes of their own
SHORT = 10  # words and marks of the longest short sentence


@dataclass(kw_only=True, frozen=True)
class TranslationRecipe:
    """Sizes of a translator and the settings of its training.

    Args:
        data: One of ``DATA``, or the name of a folder with ``train.xx`` and ``val.xx``.
        source: Language to translate from.
        target: Language to translate into.
        tokens: "words", or "byte pairs" with one vocabulary for both languages.
        min_count: Words seen less often are unknown.
        vocab_size: Number of byte-pair tokens.
        lower: Whether the target, and byte pairs of both languages, are in lower case; whole source words always are.
        scenes: Number of scenes to learn from, where the data is scenes.
        width: Model width D.
        num_heads: Number of heads.
        num_layers: Number of layers of encoder and decoder.
        dim_feedforward: Hidden width of the feed-forward networks.
        dropout: Probability of dropping.
        label_smoothing: Share of the wanted probability for other words.
        norm_first: Pre-norm instead of post-norm.
        positions: "learned" or "sinusoidal".
        share_embeddings: "none", "target" or "all".
        max_length: Longest sentence in tokens, ``<START>`` and ``<END>`` included.
        fit: Settings of the loop.
    """

    data: str = "scenes"
    source: str = "en"
    target: str = "de"
    tokens: str = "words"
    min_count: int = 1
    vocab_size: int = 8000
    lower: bool = True
    scenes: int = 3000
    width: int = 128
    num_heads: int = 4
    num_layers: int = 2
    dim_feedforward: int = 256
    dropout: float = 0.1
    label_smoothing: float = 0.1
    norm_first: bool = False
    positions: str = "learned"
    share_embeddings: str = "none"
    max_length: int = 64
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        check_choice("TranslationRecipe", "tokens", self.tokens, ("words", "byte pairs"))


def translation_recipe(data: str = "scenes", **changes: Any) -> TranslationRecipe:
    """Give the recipe for a data set.

    Args:
        data: "scenes" (English to German), "multi30k-short" (German to English, at most ten words and marks),
            "multi30k" (all of it, byte pairs), or a folder with ``train.de``, ``train.en``, ``val.de``, ``val.en``,
            which is treated as the last.
        **changes: Fields of :class:`FitConfig` that shall differ, ``steps=40`` for instance.

    Returns:
        The recipe.
    """
    common = {"betas": (0.9, 0.98), "schedule": "linear", "weight_decay": 0.0}
    if data == "scenes":
        settings = FitConfig(
            steps=500, batch_size=64, optimizer="muon", learning_rate=2e-3, muon_rate=0.01, warmup=0.1,
            evaluate_every=100, **common,
        )  # fmt: skip
        sizes = {"lower": False, "dropout": 0.0, "label_smoothing": 0.0, "norm_first": True}
        return TranslationRecipe(**sizes, fit=replace(settings, **changes))
    german = {"data": data, "source": "de", "target": "en"}
    if data == "multi30k-short":
        settings = FitConfig(
            steps=900, batch_size=64, optimizer="muon", learning_rate=2e-3, muon_rate=0.01, warmup=0.1,
            evaluate_every=150, **common,
        )  # fmt: skip
        return TranslationRecipe(**german, min_count=3, norm_first=True, dropout=0.2, fit=replace(settings, **changes))
    settings = FitConfig(
        steps=1700, batch_size=128, optimizer="muon", learning_rate=2e-3, muon_rate=0.01, warmup=0.05,
        evaluate_every=170, patience=3, **common,
    )  # fmt: skip
    sizes = {"tokens": "byte pairs", "vocab_size": 6000, "share_embeddings": "all", "norm_first": True}
    sizes |= {"width": 192, "num_layers": 3, "dim_feedforward": 512}
    return TranslationRecipe(**german, **sizes, fit=replace(settings, **changes))


@dataclass
class Translator:
    """A model with its tokenizers: text in, text out.

    Args:
        model: The model.
        source: Tokenizer of the language it reads.
        target: Tokenizer of the language it writes.
        recipe: What it was made by.
        known: Words of the training sentences, by language: by these one sees which language a text is in.
        history: The course of the training; empty after loading.
        left_out: For "train" and "val" what is to be said of pairs too long for the model, where there are any; empty
            after loading.
    """

    model: TranslationTransformer
    source: Tokenizer
    target: Tokenizer
    recipe: TranslationRecipe
    known: dict[str, set[str]]
    history: History = field(default_factory=History)
    left_out: dict[str, str] = field(default_factory=dict)

    def translate(
        self, texts: Sequence[str], *, beam_size: int = 1, alpha: float = 0.6, batch_size: int = 100
    ) -> list[str]:
        """Translate sentences; like lengths are read together, and no word is written as unknown.

        Args:
            texts: Sentences in the language it reads.
            beam_size: Number of beginnings that are followed; 1 is greedy.
            alpha: How strongly long translations are favoured, for more than one beam.
            batch_size: Sentences at a time.

        Returns:
            One translation for each.

        Raises:
            ValueError: If a sentence has more tokens than the model has positions.
        """
        rows = [torch.tensor(self.source.encode(text)) for text in texts]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        written = [""] * len(rows)
        device = self.model.output.weight.device
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            src = nn.utils.rnn.pad_sequence([rows[index] for index in chosen], batch_first=True).to(device)  # (N, S)
            # One limit for all, or a sentence that does not end would depend on its neighbours.
            found = self._generate(src, self.model.max_length, beam_size=beam_size, alpha=alpha)  # (N, T)
            for index, ids in zip(chosen, found.tolist(), strict=True):
                written[index] = self.target.decode(ids)
        return written

    def alignment(self, text: str, *, layer: int = -1) -> tuple[list[str], list[str], Tensor]:
        """Translate a sentence and tell where the decoder looked for each word.

        Args:
            text: A sentence.
            layer: Which decoder layer; the last by default.

        Returns:
            The source's tokens, the translation's tokens, both with ``<END>``, and the cross-attention (H, T, S)
            of the step that chose each of them.
        """
        device = self.model.output.weight.device
        src = torch.tensor([self.source.encode(text)], device=device)  # (1, S)
        with eval_mode(self.model), torch.no_grad():
            ids = self._generate(src, self.model.max_length - 1)  # (1, T)
            ids = ids[:, : int((ids != NULL_ID).sum())]
            read = torch.cat([torch.full_like(ids[:, :1], START_ID), ids[:, :-1]], dim=1)  # (1, T)
            _, weights = self.model(src, read, need_weights=True)
        written = [*self.target.names(ids[0].tolist()), "<END>"][: ids.shape[1]]
        return ["<START>", *self.source.pieces(text), "<END>"], written, weights[layer][0].cpu()

    def _generate(self, src: Tensor, max_length: int, **search: Any) -> Tensor:
        return self.model.generate(src, max_length, start=START_ID, end=END_ID, forbidden=(UNKNOWN_ID,), **search)

    def state(self) -> dict[str, Any]:
        """Everything as tensors and plain values, for a checkpoint."""
        names = [name for name in self.recipe.__dataclass_fields__ if name != "fit"]
        return {
            "recipe": {name: getattr(self.recipe, name) for name in names},
            "model": self.model.state_dict(),
            "source": self.source.as_dict(),
            "target": self.target.as_dict(),
            "known": {language: sorted(words) for language, words in self.known.items()},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Translator:
        """Make a translator again from what ``state`` gave.

        Args:
            state: Tensors and plain values.

        Returns:
            The translator, in eval mode.

        Raises:
            ValueError: If something is missing in the state.
        """
        missing = {"recipe", "model", "source", "target", "known"} - set(state)
        if missing:
            got, fix = f"one without {', '.join(sorted(missing))}", "pass the file translator.pt of a training"
            raise ValueError(explain("Translator", "state", "a translator's", got, fix))
        recipe = TranslationRecipe(**state["recipe"])
        source, target = tokenizer_from(state["source"]), tokenizer_from(state["target"])
        model = make_translator(len(source), len(target), recipe)
        model.load_state_dict(state["model"])
        known = {language: set(words) for language, words in state["known"].items()}
        return cls(model.eval(), source, target, recipe, known)


def make_translator(src_vocab_size: int, tgt_vocab_size: int, recipe: TranslationRecipe) -> TranslationTransformer:
    """Build the model of a recipe.

    Args:
        src_vocab_size: Number of tokens it reads.
        tgt_vocab_size: Number of tokens it writes.
        recipe: Sizes.

    Returns:
        The model, untrained; its weights come from torch's global generator.
    """
    sizes = (recipe.width, recipe.num_heads, recipe.num_layers, recipe.dim_feedforward, recipe.dropout)
    options = {"positions": recipe.positions, "norm_first": recipe.norm_first, "max_length": recipe.max_length}
    return TranslationTransformer(
        src_vocab_size, tgt_vocab_size, *sizes, **options, share_embeddings=recipe.share_embeddings
    )


def translation_loss(label_smoothing: float = 0.0, pad: int = NULL_ID) -> LossFunction:
    """Make the loss of a translator: the mean over the real words of the batch, by ``label_smoothing_loss``.

    Args:
        label_smoothing: Share of the wanted probability for other words.
        pad: Id of the padding of the target.

    Returns:
        Function of a model and a batch (source (N, S), target (N, T + 1)): the target without its last word is read,
        the target without its first is wanted.
    """

    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        src, tgt = batch
        logits, wanted = model(src, tgt[:, :-1]), tgt[:, 1:]  # (N, T, V) and (N, T)
        real = wanted != pad
        right = ((logits.detach().argmax(dim=-1) == wanted) & real).sum() / real.sum().clamp(min=1)
        return label_smoothing_loss(logits, wanted, smoothing=label_smoothing, pad=pad), {"token_accuracy": right}

    return loss


def token_figures(model: nn.Module, data: PairDataset, *, batch_size: int = 128) -> dict[str, float]:
    """Measure how well a model foretells each next word of given translations, without smoothing.

    Every word counts the same, whatever the length of its sentence.

    Args:
        model: The model; it goes back to its mode.
        data: Pairs.
        batch_size: Pairs at a time.

    Returns:
        "val_loss" in nats per token, "val_perplexity", its exponential, and "val_token_accuracy".
    """
    device, total, right, count = next(model.parameters()).device, 0.0, 0, 0
    with eval_mode(model), torch.no_grad():
        for indices in torch.arange(len(data)).split(batch_size):
            src, tgt = (side.to(device) for side in data.batch(indices))
            logits, wanted = model(src, tgt[:, :-1]), tgt[:, 1:]
            real = wanted != NULL_ID
            total += F.cross_entropy(logits[real].double(), wanted[real], reduction="sum").item()
            right += int((logits[real].argmax(dim=-1) == wanted[real]).sum())
            count += int(real.sum())
    mean = total / count
    return {"val_loss": mean, "val_perplexity": math.exp(min(mean, 700.0)), "val_token_accuracy": right / count}


def translation_scores(
    translator: Translator, pairs: Pairs, *, beam_size: int = 1, alpha: float = 0.6
) -> dict[str, float]:
    """Translate sentences and hold the results against right translations.

    Args:
        translator: The translator.
        pairs: Pairs (source, right translation).
        beam_size: Number of beams.
        alpha: How strongly long translations are favoured.

    Returns:
        "bleu": sacrebleu with tokenize="none" on words and marks as ``split_words`` gives them, in lower case where
        the model is; "bleu_13a": sacrebleu's own tokenizer on the text, likewise; "exact": share of translations
        that are the right one word for word.
    """
    lower = translator.recipe.lower
    written = translator.translate([one for one, _ in pairs], beam_size=beam_size, alpha=alpha)
    right = [other.lower() if lower else other for _, other in pairs]
    words = [[" ".join(split_words(text, lower=lower)) for text in side] for side in (written, right)]
    return {
        "bleu": bleu(*words),
        "bleu_13a": bleu(written, right, tokenize="13a"),
        "exact": exact_match(*words),
    }


def recipe_pairs(recipe: TranslationRecipe, split: str = "train") -> Pairs:
    """Give the sentences of a recipe; those of scenes for validation and test do not occur in training.

    Args:
        recipe: The recipe.
        split: "train", "val" or "test".

    Returns:
        Pairs (source, target).

    Raises:
        FileNotFoundError: If the data is not on disk.
    """
    check_choice("recipe_pairs", "split", split, ("train", "val", "test"))
    if recipe.data == "scenes":
        train = scene_pairs(recipe.scenes, TRAIN_SEED)
        if split == "train":
            return train
        seen = set(train)  # short captions repeat: there are few scenes of one object
        return [pair for pair in scene_pairs(300, VAL_SEED + (split == "test")) if pair not in seen]
    languages = {"source": recipe.source, "target": recipe.target}
    if recipe.data.startswith("multi30k"):
        pairs = load_multi30k("test_2016_flickr" if split == "test" else split, **languages)
        return short_pairs(pairs, SHORT) if recipe.data == "multi30k-short" else pairs
    return read_pairs(recipe.data, split, **languages)


def make_tokenizers(recipe: TranslationRecipe, pairs: Pairs) -> tuple[Tokenizer, Tokenizer]:
    """Make the tokenizers of a recipe from its training sentences.

    Args:
        recipe: The recipe.
        pairs: Training pairs.

    Returns:
        The tokenizers of source and target; with byte pairs one and the same.
    """
    sides = ([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    if recipe.tokens == "byte pairs":
        common = BytePairTokenizer.train([*sides[0], *sides[1]], size=recipe.vocab_size, lower=recipe.lower)
        return common, common
    # The source is read in lower case whatever the target needs: "A" at the start of a sentence is the word "a".
    source = WordTokenizer.build(sides[0], min_count=recipe.min_count)
    return source, WordTokenizer.build(sides[1], min_count=recipe.min_count, lower=recipe.lower)


def train_translator(
    recipe: TranslationRecipe | None = None,
    *,
    pairs: Pairs | None = None,
    val_pairs: Pairs | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    on_record: Callable[[History], None] | None = None,
) -> Translator:
    """Train a translator; the weights with the least validation loss are kept.

    Args:
        recipe: Data, sizes and settings, or None for scenes.
        pairs: Training sentences in place of the recipe's.
        val_pairs: Validation sentences in place of the recipe's.
        folder: Where checkpoints are kept, or None.
        resume: Go on from the last checkpoint in ``folder``.
        on_record: Called with the history after every evaluation.

    Returns:
        The trained translator.

    Raises:
        FileNotFoundError: If the data is not on disk.
    """
    recipe = recipe or translation_recipe()
    pairs = pairs if pairs is not None else recipe_pairs(recipe)
    val_pairs = val_pairs if val_pairs is not None else recipe_pairs(recipe, "val")
    source, target = make_tokenizers(recipe, pairs)
    train = PairDataset(pairs, source, target, max_length=recipe.max_length)
    val = PairDataset(val_pairs, source, target, max_length=recipe.max_length, sort=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.fit.seed)
        model = make_translator(len(source), len(target), recipe)
    history = fit(
        model, train, loss=translation_loss(recipe.label_smoothing), config=recipe.fit,
        evaluate=lambda judged: token_figures(judged, val), folder=folder, resume=resume, on_record=on_record,
    )  # fmt: skip
    known = {
        language: {word for pair in pairs for word in split_words(pair[side]) if word[0].isalpha()}
        for side, language in enumerate((recipe.source, recipe.target))
    }
    left_out = {
        split: f"{found.left_out} of {len(found) + found.left_out} pairs have more than {recipe.max_length} tokens, "
        f"the longest {found.longest}"
        for split, found in (("train", train), ("val", val))
        if found.left_out
    }
    return Translator(model, source, target, recipe, known, history, left_out)
