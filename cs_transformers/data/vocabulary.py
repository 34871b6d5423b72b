"""Words and their numbers: how captions become rows of ids and ids become text again.

The first four ids are the same in every data set of the course: ``<NULL>`` 0 pads, ``<START>`` 1 and ``<END>`` 2 stand
around a caption, ``<UNK>`` 3 replaces a word that is not in the vocabulary. Files are UTF-8 whatever the machine's
locale says.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from cs_transformers.data.paths import DamagedFileError
from cs_transformers.errors import check_count, explain
from cs_transformers.files import atomic_path

NULL, START, END, UNK = "<NULL>", "<START>", "<END>", "<UNK>"
SPECIAL_WORDS = (NULL, START, END, UNK)
_INNER = "'\u2019-"  # these belong to a word between its letters, as in "t-shirt" and "dog's"


def tokenize(text: str) -> list[str]:
    """Split a sentence into words: lower case, punctuation dropped, symbols and emoji kept.

    Args:
        text: A sentence in any language; composed and decomposed letters count as the same.

    Returns:
        Its words.

    Raises:
        TypeError: If ``text`` is no text.

    Example:
        >>> tokenize("A dog's T-shirt, on a man .")
        ['a', "dog's", 't-shirt', 'on', 'a', 'man']
    """
    if not isinstance(text, str):
        raise TypeError(explain("tokenize", "text", "a sentence", type(text).__name__, "pass one str"))
    text = unicodedata.normalize("NFC", text).lower()
    spaced = "".join(" " if unicodedata.category(char)[0] == "P" and char not in _INNER else char for char in text)
    return [word for word in (piece.strip(_INNER) for piece in spaced.split()) if word]


class Vocabulary:
    """A list of words, each known by its place in the list.

    Args:
        words: All words in order; the four special words come first.

    Raises:
        ValueError: If the special words are not first or a word occurs twice.

    Example:
        >>> vocabulary = Vocabulary.build(["a red circle", "a blue circle"])
        >>> vocabulary.idx_to_word[4:]
        ['a', 'circle', 'blue', 'red']
        >>> vocabulary.encode("a green circle", length=6).tolist()
        [1, 4, 3, 5, 2, 0]
        >>> vocabulary.decode([1, 4, 7, 5, 2, 0])
        'a red circle'
    """

    def __init__(self, words: Sequence[str]) -> None:
        words = list(words)
        if tuple(words[:4]) != SPECIAL_WORDS:
            fix = "put them in front, or use Vocabulary.build"
            raise ValueError(explain("Vocabulary", "words[:4]", ", ".join(SPECIAL_WORDS), words[:4], fix))
        twice = [word for word, count in Counter(words).items() if count > 1]
        if twice:
            raise ValueError(explain("Vocabulary", "words", "all different", f"{twice[:5]} twice", "drop the copies"))
        self.idx_to_word: list[str] = words
        self.word_to_idx: dict[str, int] = {word: index for index, word in enumerate(words)}

    @classmethod
    def build(cls, captions: Iterable[str], *, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
        """Collect the words of captions, the most frequent first, equally frequent ones by the alphabet.

        Args:
            captions: Sentences, of the training split only.
            min_count: Words seen less often become ``<UNK>``.
            max_size: Most entries of the vocabulary, special words included.

        Returns:
            The vocabulary.

        Raises:
            TypeError: If ``captions`` is one text instead of several.
            ValueError: If ``min_count`` is below 1 or ``max_size`` below 4.
        """
        if isinstance(captions, str):  # would be taken for a list of letters
            fix = "put it into a list"
            raise TypeError(explain("Vocabulary.build", "captions", "several sentences", "one str", fix))
        check_count("Vocabulary.build", "min_count", min_count)
        if max_size is not None:
            check_count("Vocabulary.build", "max_size", max_size, minimum=len(SPECIAL_WORDS))
        counts = Counter(word for caption in captions for word in tokenize(caption))
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        words = [word for word, count in ranked if count >= min_count]
        return cls([*SPECIAL_WORDS, *words][:max_size])

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, remedy: str = "") -> Vocabulary:
        """Read a vocabulary file of the CS231n layout: json with ``idx_to_word`` and ``word_to_idx``.

        Args:
            path: The file, UTF-8.
            remedy: What the reader can do when the file is damaged; it ends the message.

        Returns:
            The vocabulary.

        Raises:
            FileNotFoundError: If there is no such file.
            DamagedFileError: If it is cut off, no such json, or its two halves contradict each other.
        """
        path = Path(path).absolute()
        if not path.is_file():
            raise FileNotFoundError(f"Vocabulary.load: expected the file {path}, there is none. {remedy}".rstrip())
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            words, numbers = content["idx_to_word"], content["word_to_idx"]
            vocabulary = cls(words)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(
                f"Vocabulary.load: {path} is incomplete or no vocabulary (size {path.stat().st_size}; {error}): delete "
                f"it and get it again. {remedy}".rstrip()
            ) from error
        if vocabulary.word_to_idx != numbers:
            raise DamagedFileError(
                f"Vocabulary.load: idx_to_word and word_to_idx of {path} contradict each other: delete it and get it "
                f"again. {remedy}".rstrip()
            )
        return vocabulary

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as json, UTF-8, whole or not at all.

        Args:
            path: The file.
        """
        content = {"idx_to_word": self.idx_to_word, "word_to_idx": self.word_to_idx}
        with atomic_path(path, who="Vocabulary.save") as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    def __len__(self) -> int:
        return len(self.idx_to_word)

    def encode(self, text: str, length: int) -> np.ndarray:
        """Turn a sentence into a row of ids: ``<START>``, words, ``<END>``, ``<NULL>`` up to the length.

        Args:
            text: A sentence; unknown words become ``<UNK>``, words beyond the length are cut, ``<END>`` stays.
            length: Length of the row, at least 2.

        Returns:
            (length,) int32.

        Raises:
            ValueError: If ``length`` is below 2.
        """
        check_count("Vocabulary.encode", "length", length, minimum=2)
        unknown = self.word_to_idx[UNK]
        ids = [self.word_to_idx.get(word, unknown) for word in tokenize(text)[: length - 2]]
        row = np.full(length, self.word_to_idx[NULL], dtype=np.int32)
        row[: len(ids) + 2] = [self.word_to_idx[START], *ids, self.word_to_idx[END]]
        return row

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids back into text, without the special words around it.

        Args:
            ids: Ids of one caption; everything from the first ``<END>`` on is left out.

        Returns:
            The words, one blank between them; ``<UNK>`` stays visible.

        Raises:
            ValueError: If an id lies outside the vocabulary.
        """
        words = []
        for index in ids:
            if not 0 <= int(index) < len(self):
                fix = "use the vocabulary the captions were made with"
                raise ValueError(explain("Vocabulary.decode", "ids", f"from 0 to {len(self) - 1}", int(index), fix))
            word = self.idx_to_word[int(index)]
            if word == END:
                break
            if word not in (NULL, START):
                words.append(word)
        return " ".join(words)
