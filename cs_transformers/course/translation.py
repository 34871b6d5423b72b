"""What ``cst train translate`` and ``cst translate`` do: train, judge and keep a translator; translate with it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cs_transformers.course.training import Outcome, keep_curve
from cs_transformers.errors import check_count, explain

if TYPE_CHECKING:
    from cs_transformers.training.recipes_translation import Translator

WEIGHTS = "translator.pt"
LANGUAGES = {"de": "German", "en": "English"}
SPLITS = {"train": "training", "val": "validation"}
BEAMS = 4


@dataclass(frozen=True)
class Translation:
    """A translated sentence.

    Args:
        text: The translation.
        unknown: Words and marks of the source that training has never shown, or too rarely to learn.
    """

    text: str
    unknown: tuple[str, ...] = ()


def train(data: str, folder: Path, *, max_length: int | None = None, resume: bool = False, **changes: Any) -> Outcome:
    """Train a translator, look at the test sentences once, keep it.

    Args:
        data: ``"scenes"``, ``"multi30k-short"``, ``"multi30k"``, or a folder with ``train.de`` and so on.
        folder: Where checkpoints, history, curve and ``translator.pt`` are kept.
        max_length: Longest sentence in tokens, start and end included; None for the recipe's.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of ``FitConfig`` that differ from the recipe.

    Returns:
        Figures on sentences that training has not seen, and how many pairs were too long to learn from.

    Raises:
        TypeError: If ``max_length`` is not a whole number.
        ValueError: If it is below 2, which start and end take, or no pair is short enough.
    """
    from dataclasses import replace

    from cs_transformers.training import recipes_translation as recipes
    from cs_transformers.training.checkpoints import save_checkpoint

    recipe = recipes.translation_recipe(data, **changes)
    if max_length is not None:
        check_count("train", "max_length", max_length, minimum=2)
        recipe = replace(recipe, max_length=max_length)
    translator = recipes.train_translator(recipe, folder=folder, resume=resume)
    save_checkpoint(folder / WEIGHTS, translator.state())
    best = translator.history.best("val_loss")
    figures = {"validation perplexity": f"{best['val_perplexity']:.2f}"}
    for split, told in translator.left_out.items():
        figures[f"left out of {SPLITS[split]}"] = f"{told}; raise --max-length to keep them"
    split = "test" if data in recipes.DATA else "val"
    pairs = recipes.recipe_pairs(recipe, split)
    longest = translator.model.max_length
    fitting = [pair for pair in pairs if len(translator.source.encode(pair[0])) <= longest]
    if len(fitting) < len(pairs):
        figures["not translated"] = f"{len(pairs) - len(fitting)} {split} sentences of more than {longest} tokens"
    pairs = fitting
    if find_spec("sacrebleu") is None:
        figures["BLEU"] = "not measured, it needs the package sacrebleu: pip install 'cs_transformers[score]'"
        return keep_curve(figures, translator.history, folder)
    scores = recipes.translation_scores(translator, pairs, beam_size=1 if data == "scenes" else BEAMS)
    figures[f"BLEU of {len(pairs)} {split} sentences (sacrebleu, words and marks)"] = f"{scores['bleu']:.2f}"
    figures["BLEU by sacrebleu's tokenizer 13a"] = f"{scores['bleu_13a']:.2f}"
    figures["translations that are exact"] = f"{100 * scores['exact']:.1f} %"
    return keep_curve(figures, translator.history, folder)


def load_translator(path: Path) -> Translator:
    """Open a trained translator.

    Args:
        path: The file ``translator.pt``, or the folder it lies in.

    Returns:
        The translator.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If the file is damaged, holds something else, or its weights do not fit.
    """
    from cs_transformers.training.recipes_translation import Translator
    from cs_transformers.training.stored_models import load_parts, rebuilding

    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            f"load_translator: expected {WEIGHTS} in {path.absolute()}, found none; train one with: "
            f"cst train translate --out {path}"
        )
    state = load_parts(file, "translator", who="load_translator")
    with rebuilding(file, "translator", who="load_translator"):
        return Translator.from_state(state)


def translate(text: str, translator: Translator, *, beam_size: int = BEAMS) -> Translation:
    """Translate a sentence, after a look at whether it is one that the model can know.

    Args:
        text: The sentence.
        translator: The translator.
        beam_size: Number of beams; 1 is greedy.

    Returns:
        The translation and the words that the model cannot know.

    Raises:
        TypeError: If ``text`` is no text.
        ValueError: If it is empty, holds no word, is too long or in another language.
    """
    check_count("translate", "beam_size", beam_size)
    unknown = check_sentence(text, translator)
    return Translation(translator.translate([text], beam_size=beam_size)[0], unknown)


def check_sentence(text: str, translator: Translator) -> tuple[str, ...]:
    """Refuse what cannot be translated, and say why.

    Args:
        text: A sentence.
        translator: The translator that shall read it.

    Returns:
        Its words that occur in no training sentence, and its words and marks that are no tokens of the model's.

    Raises:
        TypeError: If ``text`` is no text.
        ValueError: If it is empty, holds no word, is too long or in another language.
    """
    from cs_transformers.data.tokens import WordTokenizer, split_words

    who = "translate"
    source, target = translator.recipe.source, translator.recipe.target
    language = LANGUAGES.get(source, source)
    expected = f"a sentence in {language}"
    if not isinstance(text, str):
        raise TypeError(explain(who, "the text", expected, type(text).__name__, "pass a str"))
    if any(0xD800 <= ord(letter) < 0xE000 or letter == "\0" for letter in text):
        raise ValueError(explain(who, "the text", f"{expected}, as UTF-8", "bytes that are no text", "re-encode it"))
    if not text.strip():
        raise ValueError(explain(who, "the text", expected, "an empty text", "write the sentence in quotes"))
    words = [word for word in split_words(text) if word[0].isalpha()]
    if not words:
        raise ValueError(explain(who, "the text", expected, f"{text.strip()[:40]!r}, no word", "write words"))
    known, foreign = (sum(word in translator.known[one] for word in words) for one in (source, target))
    if 2 * known < len(words) or foreign > known:
        counts = f"{known} occur in its {language} training sentences, {foreign} in the {LANGUAGES.get(target, target)}"
        got = f"{len(words)} words, of which {counts}"
        raise ValueError(explain(who, "the text", expected, got, f"write {language}, about what the model has learnt"))
    tokens, longest = len(translator.source.encode(text)), translator.model.max_length
    if tokens > longest:
        got = f"{tokens} with start and end"
        fix = "split it into sentences, or train with a larger max_length"
        raise ValueError(explain(who, "the text", f"of at most {longest} tokens", got, fix))
    unread: list[str] = []  # by whole words the model may lack a mark, or a word that is rare in training
    if isinstance(translator.source, WordTokenizer):
        unread = [word for word in translator.source.pieces(text) if word not in translator.source.ids]
    return tuple(dict.fromkeys([*(word for word in words if word not in translator.known[source]), *unread]))
