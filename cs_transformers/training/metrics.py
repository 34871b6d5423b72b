"""Measures of what a model has learned: accuracies, and the scores of sentences against references."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cs_transformers.errors import explain


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Measure the share of right classes.

    Args:
        predicted: (N,) classes, or (N, classes) scores whose largest counts.
        labels: (N,) right classes.

    Returns:
        A fraction from 0 to 1.

    Raises:
        ValueError: If the lengths differ or are 0.

    Example:
        >>> accuracy(torch.tensor([1, 0, 2, 2]), torch.tensor([1, 1, 2, 2]))
        0.75
    """
    predicted = _as_classes("accuracy", predicted, labels)
    return (predicted == labels).double().mean().item()


def confusion_matrix(predicted: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Count which class was taken for which.

    Args:
        predicted: (N,) classes, or (N, classes) scores whose largest counts.
        labels: (N,) right classes.
        num_classes: Number of classes.

    Returns:
        (num_classes, num_classes) int64: row = right class, column = predicted class.

    Raises:
        ValueError: If the lengths differ, are 0, or a class is not below ``num_classes``.

    Example:
        >>> confusion_matrix(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 1]), num_classes=2)
        tensor([[0, 0],
                [1, 2]])
    """
    predicted = _as_classes("confusion_matrix", predicted, labels)
    both = torch.stack([labels, predicted]).long()  # (2, N)
    if both.min() < 0 or both.max() >= num_classes:
        got = f"{int(both.min())} to {int(both.max())}"
        fix = "pass the number of classes of the data set"
        raise ValueError(explain("confusion_matrix", "classes", f"0 to {num_classes - 1}", got, fix))
    pairs = both[0] * num_classes + both[1]  # (N,)
    return torch.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def exact_match(written: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Measure the share of sentences that equal a reference word for word.

    Args:
        written: Sentences of the model.
        references: For each of them a right sentence, or several.

    Returns:
        A fraction from 0 to 1.

    Raises:
        ValueError: If the lengths differ or are 0.

    Example:
        >>> exact_match(["a dog", "a cat"], ["a dog", ["the cat", "one cat"]])
        0.5
    """
    several = _several("exact_match", written, references)
    return sum(words in right for words, right in zip(written, several, strict=True)) / len(several)


def bleu(written: Sequence[str], references: Sequence[str | Sequence[str]], *, tokenize: str = "none") -> float:
    """Measure how many runs of one to four words a corpus shares with its references, by sacrebleu.

    Args:
        written: Sentences of the model.
        references: For each of them a right sentence, or several.
        tokenize: sacrebleu's tokenizer; "none" splits at blanks, "13a" is right for sentences with punctuation.

    Returns:
        BLEU-4 from 0 to 100.

    Raises:
        ImportError: If sacrebleu is not installed.
        ValueError: If the lengths differ or are 0.

    Source:
        Papineni et al. 2002, ACL; Post 2018, arXiv:1804.08771.
    """
    several = _several("bleu", written, references)
    sacrebleu = _needed("bleu", "sacrebleu")
    most = max(len(right) for right in several)
    streams = [[right[index] if index < len(right) else None for right in several] for index in range(most)]
    return sacrebleu.corpus_bleu(list(written), streams, tokenize=tokenize, force=True).score


def cider(written: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Measure how much captions share with their references of the words that are rare elsewhere, by pycocoevalcap.

    Words are what stands between blanks. The official score first passes all sentences through a tokenizer written in
    Java, which changes nothing where text is lower case and without punctuation.

    Args:
        written: Captions of the model.
        references: For each of them a right caption, or several.

    Returns:
        CIDEr, 0 for nothing in common, about 1 for good captions, at most 10.

    Raises:
        ImportError: If pycocoevalcap is not installed.
        ValueError: If the lengths differ or are 0.

    Source:
        Vedantam et al. 2015, CVPR, arXiv:1411.5726.
    """
    several = _several("cider", written, references)
    _needed("cider", "pycocoevalcap")
    from pycocoevalcap.cider.cider import Cider

    right = {index: [" ".join(text.split()) for text in texts] for index, texts in enumerate(several)}
    got = {index: [" ".join(text.split())] for index, text in enumerate(written)}
    with contextlib.redirect_stdout(io.StringIO()):
        score, _ = Cider().compute_score(right, got)
    return float(score)


def _as_classes(who: str, predicted: Tensor, labels: Tensor) -> Tensor:
    classes = predicted.argmax(dim=-1) if predicted.dim() == labels.dim() + 1 else predicted
    if classes.shape != labels.shape or labels.numel() == 0:
        expected = f"one for each of at least one label (labels: {tuple(labels.shape)})"
        fix = "predict the examples whose labels you pass"
        raise ValueError(explain(who, "predicted", expected, tuple(predicted.shape), fix))
    return classes


def _several(who: str, written: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    if len(written) != len(references) or len(written) == 0:
        got = f"{len(written)} sentences and {len(references)} references"
        fix = "pass two lists of equal length"
        raise ValueError(explain(who, "written", "one for each of at least one reference", got, fix))
    return [[right] if isinstance(right, str) else list(right) for right in references]


def _needed(who: str, package: str) -> Any:
    try:
        return __import__(package)
    except ImportError as problem:
        raise ImportError(f"{who} needs the package {package}: pip install 'cs_transformers[score]'.") from problem
