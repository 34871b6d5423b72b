"""Sentences as tokens: whole words, or pieces of words that byte-pair encoding finds.

Both kinds of tokenizer share the first four ids with the rest of the course (``<NULL>`` 0, ``<START>`` 1, ``<END>`` 2,
``<UNK>`` 3) and can be kept as plain text, so that a checkpoint holds all it takes to translate.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cs_transformers.data.vocabulary import SPECIAL_WORDS, UNK
from cs_transformers.errors import check_count, explain

NULL_ID, START_ID, END_ID, UNKNOWN_ID = range(4)
_WORDS = re.compile(r"\w+|[^\w\s]")
_CLOSING = re.compile(r" (?=[.,;:!?%)\]])")


def split_words(text: str, *, lower: bool = True) -> list[str]:
    """Split a sentence into words and marks of punctuation, each mark a token of its own.

    Args:
        text: A sentence; composed and decomposed letters count as the same.
        lower: Whether to write everything in lower case.

    Returns:
        Its tokens, in order.

    Example:
        >>> split_words("Ein Hund rennt, schnell!")
        ['ein', 'hund', 'rennt', ',', 'schnell', '!']
    """
    text = unicodedata.normalize("NFC", text)
    return _WORDS.findall(text.lower() if lower else text)


class WordTokenizer:
    """Tokens are words and marks; words that are not in the list become ``<UNK>``.

    Args:
        words: All tokens in order, the four special ones first.
        lower: Whether text is written in lower case first.

    Raises:
        ValueError: If the special tokens are not first, or a token occurs twice.

    Example:
        >>> tokens = WordTokenizer.build(["ein Hund", "ein Kind ."])
        >>> tokens.encode("Ein Hund!")
        [1, 4, 6, 3, 2]
        >>> tokens.decode([1, 4, 7, 5, 2, 0])
        'ein kind.'
    """

    def __init__(self, words: Sequence[str], *, lower: bool = True) -> None:
        self.words, self.lower = list(words), lower
        if tuple(self.words[:4]) != SPECIAL_WORDS:
            fix = "put them in front, or use WordTokenizer.build"
            raise ValueError(explain("WordTokenizer", "words[:4]", ", ".join(SPECIAL_WORDS), self.words[:4], fix))
        self.ids = {word: index for index, word in enumerate(self.words)}
        if len(self.ids) < len(self.words):
            twice = [word for word, count in Counter(self.words).items() if count > 1]
            raise ValueError(explain("WordTokenizer", "words", "all different", f"{twice[:5]} twice", "drop copies"))

    @classmethod
    def build(cls, sentences: Iterable[str], *, min_count: int = 1, lower: bool = True) -> WordTokenizer:
        """Collect the words of sentences, the most frequent first, equally frequent ones by the alphabet.

        Args:
            sentences: Sentences, of the training split only.
            min_count: Words seen less often become ``<UNK>``.
            lower: Whether to write everything in lower case.

        Returns:
            The tokenizer.

        Raises:
            ValueError: If ``min_count`` is below 1.
        """
        check_count("WordTokenizer.build", "min_count", min_count)
        counts = Counter(word for text in sentences for word in split_words(text, lower=lower))
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        return cls([*SPECIAL_WORDS, *(word for word, count in ranked if count >= min_count)], lower=lower)

    def __len__(self) -> int:
        return len(self.words)

    def pieces(self, text: str) -> list[str]:
        """Split a sentence into words and marks.

        Args:
            text: A sentence.
        """
        return split_words(text, lower=self.lower)

    def encode(self, text: str) -> list[int]:
        """Turn a sentence into ids, ``<START>`` and ``<END>`` around it.

        Args:
            text: A sentence.
        """
        return [START_ID, *(self.ids.get(word, UNKNOWN_ID) for word in self.pieces(text)), END_ID]

    def names(self, ids: Iterable[int]) -> list[str]:
        """Name each token up to ``<END>``, without the special ones around the sentence.

        Args:
            ids: Ids.

        Raises:
            ValueError: If an id is not in the list.
        """
        return [self.words[index] for index in _inner(ids, len(self))]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids back into a sentence: one blank between words, none before a closing mark.

        Args:
            ids: Ids; everything from ``<END>`` on is left out.

        Raises:
            ValueError: If an id is not in the list.
        """
        return _CLOSING.sub("", " ".join(self.names(ids)))

    def as_dict(self) -> dict[str, Any]:
        """Everything it takes to make the tokenizer again, as plain values."""
        return {"kind": "words", "words": list(self.words), "lower": self.lower}


class BytePairTokenizer:
    """Tokens are pieces of words: frequent words stay whole, rare ones fall into parts, down to single letters.

    Training starts from letters and joins, again and again, the two neighbours that stand side by side most often. So
    there is hardly an unknown word; only a letter that training has never seen becomes ``<UNK>``. A token that begins a
    word begins with ``▁``.

    Args:
        text: What ``as_dict`` gave: the json of the package tokenizers.

    Raises:
        ImportError: If the package tokenizers is not installed.
        ValueError: If the text is no such json.

    Source:
        Sennrich et al. 2016, section 3.2, arXiv:1508.07909.
    """

    def __init__(self, text: str) -> None:
        package = _tokenizers()
        try:
            self._inner = package.Tokenizer.from_str(text)
        except Exception as problem:
            fix = "pass the json that as_dict gave"
            got = f"{type(problem).__name__}"
            raise ValueError(explain("BytePairTokenizer", "text", "a tokenizer as json", got, fix)) from problem
        self._inner.encode_special_tokens = True  # a sentence that contains "<END>" does not end there

    @classmethod
    def train(cls, sentences: Iterable[str], *, size: int = 8000, lower: bool = True) -> BytePairTokenizer:
        """Find the pieces of which sentences are best made.

        Args:
            sentences: Sentences of the training split; of both languages for one common vocabulary.
            size: Number of tokens, special ones included.
            lower: Whether to write everything in lower case.

        Returns:
            The tokenizer.

        Raises:
            ImportError: If the package tokenizers is not installed.
            ValueError: If ``size`` leaves no room beside the special tokens.
        """
        check_count("BytePairTokenizer.train", "size", size, minimum=len(SPECIAL_WORDS) + 1)
        package = _tokenizers()
        made = package.Tokenizer(package.models.BPE(unk_token=UNK))
        normal = [package.normalizers.NFC(), *([package.normalizers.Lowercase()] if lower else [])]
        made.normalizer = package.normalizers.Sequence(normal)
        made.pre_tokenizer = package.pre_tokenizers.Sequence(
            [package.pre_tokenizers.Metaspace(), package.pre_tokenizers.Punctuation()]
        )
        made.decoder = package.decoders.Metaspace()
        trainer = package.trainers.BpeTrainer(vocab_size=size, special_tokens=list(SPECIAL_WORDS), show_progress=False)
        made.train_from_iterator(sentences, trainer)
        return cls(made.to_str())

    def __len__(self) -> int:
        return self._inner.get_vocab_size()

    def __getstate__(self) -> dict[str, Any]:
        return self.as_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["json"])

    def pieces(self, text: str) -> list[str]:
        """Split a sentence into pieces of words.

        Args:
            text: A sentence.
        """
        return self._inner.encode(text, add_special_tokens=False).tokens

    def encode(self, text: str) -> list[int]:
        """Turn a sentence into ids, ``<START>`` and ``<END>`` around it.

        Args:
            text: A sentence.
        """
        return [START_ID, *self._inner.encode(text, add_special_tokens=False).ids, END_ID]

    def names(self, ids: Iterable[int]) -> list[str]:
        """Name each token up to ``<END>``, without the special ones around the sentence.

        Args:
            ids: Ids.

        Raises:
            ValueError: If an id is not in the list.
        """
        return [self._inner.id_to_token(index) for index in _inner(ids, len(self))]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids back into a sentence, the pieces joined to words.

        Args:
            ids: Ids; everything from ``<END>`` on is left out.

        Raises:
            ValueError: If an id is not in the list.
        """
        return self._inner.decode(_inner(ids, len(self)), skip_special_tokens=False)

    def as_dict(self) -> dict[str, Any]:
        """Everything it takes to make the tokenizer again, as plain values."""
        return {"kind": "byte pairs", "json": self._inner.to_str()}


Tokenizer = WordTokenizer | BytePairTokenizer


def tokenizer_from(state: dict[str, Any]) -> Tokenizer:
    """Make a tokenizer again from what ``as_dict`` gave.

    Args:
        state: Plain values.

    Returns:
        The tokenizer.

    Raises:
        ImportError: If it needs the package tokenizers, and that is not installed.
        ValueError: If the state is of no known kind.

    Example:
        >>> tokenizer_from(WordTokenizer.build(["ein Hund"]).as_dict()).encode("hund")
        [1, 5, 2]
    """
    kind = state.get("kind")
    if kind == "words":
        return WordTokenizer(state["words"], lower=state["lower"])
    if kind == "byte pairs":
        return BytePairTokenizer(state["json"])
    fix = "use the version of the course that wrote it"
    raise ValueError(explain("tokenizer_from", "kind", "'words' or 'byte pairs'", repr(kind), fix))


def _inner(ids: Iterable[int], size: int) -> list[int]:
    """Ids between ``<START>`` and ``<END>``."""
    found = []
    for index in map(int, ids):
        if not 0 <= index < size:
            fix = "use the tokenizer the sentences were made with"
            raise ValueError(explain("decode", "ids", f"from 0 to {size - 1}", index, fix))
        if index == END_ID:
            break
        if index not in (NULL_ID, START_ID):
            found.append(index)
    return found


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as problem:
        text = "BytePairTokenizer needs the package tokenizers: pip install 'cs_transformers[translate]'."
        raise ImportError(text) from problem
    return tokenizers
