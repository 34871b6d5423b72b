"""Metrics against counts and formulas written out here."""

from __future__ import annotations

import math
import sys
from collections import Counter

import pytest
import torch

from cs_transformers.training.metrics import accuracy, bleu, cider, confusion_matrix, exact_match

WRITTEN = ["a dog runs on the wet grass", "two men sit in a small boat", "a red circle left of a blue square"]
REFERENCES = [
    ["a dog runs on the grass", "the brown dog runs over wet grass today"],
    ["two men sit in a boat", "men are in a small boat on the water"],
    ["a red circle left of a blue square"],
]


def grams(text: str, size: int) -> Counter:
    words = text.split()
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def bleu_by_hand(written: list[str], references: list[list[str]]) -> float:
    """BLEU-4 of the paper: clipped precisions, closest reference length, brevity penalty."""
    logs, length, goal = 0.0, 0, 0
    for size in range(1, 5):
        hits = total = 0
        for text, right in zip(written, references, strict=True):
            counts = grams(text, size)
            most = Counter()
            for one in right:
                most |= grams(one, size)
            hits += sum(min(count, most[gram]) for gram, count in counts.items())
            total += sum(counts.values())
        logs += math.log(hits / total) / 4
    for text, right in zip(written, references, strict=True):
        size = len(text.split())
        length += size
        goal += min((len(one.split()) for one in right), key=lambda other: (abs(other - size), other))
    return 100 * math.exp(logs) * min(1.0, math.exp(1 - goal / length))


def cider_by_hand(written: list[str], references: list[list[str]]) -> float:
    """CIDEr-D: cosine of clipped tf-idf vectors of runs of 1 to 4 words, times a Gauss of the length difference."""
    scores = []
    for text, right in zip(written, references, strict=True):
        per_size = []
        for size in range(1, 5):
            documents = [set().union(*(grams(one, size) for one in images)) for images in references]

            def vector(text: str, size: int = size, documents: list = documents) -> dict:
                counts = grams(text, size)
                frequency = {gram: sum(gram in document for document in documents) for gram in counts}
                weight = {gram: math.log(len(references)) - math.log(max(1, frequency[gram])) for gram in counts}
                return {gram: count * weight[gram] for gram, count in counts.items()}

            total = 0.0
            for one in right:
                ours, theirs = vector(text), vector(one)
                dot = sum(min(ours[gram], theirs[gram]) * theirs[gram] for gram in ours if gram in theirs)
                norms = math.sqrt(sum(v * v for v in ours.values())) * math.sqrt(sum(v * v for v in theirs.values()))
                lengths = sum(grams(text, 2).values()) - sum(grams(one, 2).values())  # the reference code counts pairs
                total += (dot / norms if norms else dot) * math.exp(-(lengths**2) / 72)
            per_size.append(total / len(right))
        scores.append(10 * sum(per_size) / 4)
    return sum(scores) / len(scores)


def test_bleu_equals_the_formula_with_several_references() -> None:
    assert bleu(WRITTEN, REFERENCES) == pytest.approx(bleu_by_hand(WRITTEN, REFERENCES), rel=1e-9)


def test_bleu_of_right_sentences_is_100_and_of_strange_ones_next_to_nothing() -> None:
    firsts = [right[0] for right in REFERENCES]
    assert bleu(firsts, firsts) == pytest.approx(100)
    assert bleu(["x y z u v w"] * 3, REFERENCES) < 5


def test_cider_equals_the_formula() -> None:
    assert cider(WRITTEN, REFERENCES) == pytest.approx(cider_by_hand(WRITTEN, REFERENCES), rel=1e-9)


def test_cider_splits_at_white_space_and_prints_nothing(capsys: pytest.CaptureFixture) -> None:
    spaced = ["  ".join(text.split()) for text in WRITTEN]
    assert cider(spaced, REFERENCES) == cider(WRITTEN, REFERENCES)
    assert capsys.readouterr().out == ""


def test_accuracy_counts_classes_and_reads_scores() -> None:
    labels = torch.tensor([2, 0, 1, 1])
    assert accuracy(torch.tensor([2, 0, 0, 1]), labels) == 0.75
    assert accuracy(torch.eye(3)[[2, 0, 1, 1]] + 0.1, labels) == 1.0


def test_confusion_has_a_row_per_right_class() -> None:
    predicted, labels = torch.tensor([0, 2, 2, 1, 2]), torch.tensor([0, 0, 2, 1, 1])
    matrix = confusion_matrix(predicted, labels, num_classes=4)
    by_hand = torch.zeros(4, 4, dtype=torch.int64)
    for right, taken in zip(labels.tolist(), predicted.tolist(), strict=True):
        by_hand[right, taken] += 1
    assert torch.equal(matrix, by_hand)
    assert matrix.trace() / matrix.sum() == accuracy(predicted, labels)


def test_sentences_match_one_of_their_references_or_not() -> None:
    assert exact_match(WRITTEN, REFERENCES) == pytest.approx(1 / 3)
    assert exact_match(["a b"], ["a b"]) == 1.0


@pytest.mark.parametrize("measure", [bleu, cider, exact_match])
def test_sentences_without_references_are_refused(measure) -> None:
    with pytest.raises(ValueError, match="got 3 sentences and 2 references"):
        measure(WRITTEN, REFERENCES[:2])
    with pytest.raises(ValueError, match="got 0 sentences and 0 references"):
        measure([], [])


def test_classes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"predicted must be one for each .*\(4,\).*got \(3,\)"):
        accuracy(torch.zeros(3), torch.zeros(4))
    with pytest.raises(ValueError, match="predicted must be one for each of at least one label"):
        confusion_matrix(torch.zeros(0), torch.zeros(0), 2)
    with pytest.raises(ValueError, match="classes must be 0 to 1, got 0 to 5"):
        confusion_matrix(torch.tensor([0, 5]), torch.tensor([1, 1]), 2)


@pytest.mark.parametrize(("measure", "package"), [(bleu, "sacrebleu"), (cider, "pycocoevalcap")])
def test_a_missing_package_is_said_with_the_extra(monkeypatch: pytest.MonkeyPatch, measure, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}: pip install 'cs_transformers\[score\]'"):
        measure(WRITTEN, REFERENCES)
