"""Average precision: hand-made cases, torchmetrics as a second opinion, crowds and empty pictures."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cs_transformers.training.box_scores import average_precision, found_counts

CLASSES = ("circle", "square")
BOXES = torch.tensor([[0.0, 0.0, 40.0, 40.0], [50.0, 0.0, 90.0, 40.0]])


def entry(labels: list[int], boxes: Tensor, scores: list[float] | None = None) -> dict[str, Tensor]:
    made = {"labels": torch.tensor(labels, dtype=torch.int64), "boxes": boxes.reshape(-1, 4)}
    return made if scores is None else {**made, "scores": torch.tensor(scores)}


def test_everything_found_and_nothing_else_is_one() -> None:
    figures = average_precision([entry([0, 1], BOXES, [0.9, 0.8])], [entry([0, 1], BOXES)], CLASSES)
    assert [figures[name] for name in ("ap", "ap50", "ap75", "ap50 of square")] == pytest.approx([1, 1, 1, 1])


def test_a_missed_object_costs_its_recall() -> None:
    """One of two found: precision 1 up to a recall of one half, read at 101 recalls from 0 to 1."""
    figures = average_precision([entry([0], BOXES[:1], [0.9])], [entry([0, 0], BOXES)], CLASSES)
    assert figures["ap50"] == pytest.approx(51 / 101)


def test_a_surer_false_alarm_halves_the_precision_and_a_less_sure_one_costs_nothing() -> None:
    truth, away = [entry([0], BOXES[:1])], torch.cat((BOXES[:1], BOXES[1:] + 100))
    assert average_precision([entry([0, 0], away, [0.5, 0.9])], truth, CLASSES)["ap50"] == pytest.approx(0.5)
    assert average_precision([entry([0, 0], away, [0.9, 0.5])], truth, CLASSES)["ap50"] == pytest.approx(1)


def test_a_duplicate_is_a_false_alarm() -> None:
    twice = entry([0, 0, 0], BOXES[[0, 0, 1]], [0.9, 0.8, 0.7])
    assert average_precision([twice], [entry([0, 0], BOXES)], CLASSES)["ap50"] < 0.9


def test_the_overlap_decides_which_thresholds_count() -> None:
    """An overlap of 0.7 passes .50 to .70: five of ten thresholds."""
    near = torch.tensor([[0.0, 0.0, 40.0, 28.0]])
    figures = average_precision([entry([0], near, [0.9])], [entry([0], BOXES[:1])], CLASSES)
    assert (figures["ap50"], figures["ap75"]) == (pytest.approx(1), pytest.approx(0))
    assert figures["ap"] == pytest.approx(0.5, abs=0.1 + 1e-9)


def test_the_wrong_class_is_no_find() -> None:
    assert average_precision([entry([1], BOXES[:1], [0.9])], [entry([0], BOXES[:1])], CLASSES)["ap50"] == 0


def test_a_find_in_a_crowd_costs_nothing() -> None:
    crowd = {"crowd_labels": torch.tensor([0]), "crowd_boxes": torch.tensor([[100.0, 0.0, 300.0, 200.0]])}
    found = entry([0, 0], torch.cat((torch.tensor([[120.0, 10.0, 160.0, 50.0]]), BOXES[:1])), [0.95, 0.9])
    assert average_precision([found], [{**entry([0], BOXES[:1]), **crowd}], CLASSES)["ap50"] == pytest.approx(1)
    assert average_precision([found], [entry([0], BOXES[:1])], CLASSES)["ap50"] == pytest.approx(0.5)


def test_pictures_with_nothing_to_find_and_nothing_found() -> None:
    none = torch.zeros(0, 4)
    figures = average_precision([entry([], none, [])], [entry([], none)], CLASSES)
    assert math.isnan(figures["ap50"])
    figures = average_precision(
        [entry([], none, []), entry([], none, [])], [entry([0], BOXES[:1]), entry([], none)], CLASSES
    )
    assert figures["ap50"] == 0
    assert math.isnan(figures["ap50 of square"])


def test_it_equals_torchmetrics() -> None:
    detection = pytest.importorskip("torchmetrics.detection")
    generator = torch.Generator().manual_seed(0)
    found, truths = [], []
    for _ in range(12):
        corner, size = torch.rand(6, 2, generator=generator) * 200, 10 + torch.rand(6, 2, generator=generator) * 120
        boxes = torch.cat((corner, corner + size), dim=1)
        moved = boxes + torch.randn(6, 4, generator=generator) * 6
        moved[:, 2:] = torch.maximum(moved[:, 2:], moved[:, :2] + 1)
        labels = torch.randint(0, 2, (6,), generator=generator)
        said = torch.where(torch.rand(6, generator=generator) < 0.8, labels, 1 - labels)
        truths.append({"labels": labels[:4], "boxes": boxes[:4]})
        found.append({"labels": said, "boxes": moved, "scores": torch.rand(6, generator=generator)})
    metric = detection.MeanAveragePrecision(backend="pycocotools")
    metric.update(found, truths)
    expected, figures = metric.compute(), average_precision(found, truths, CLASSES)
    names = {"ap": "map", "ap50": "map_50", "ap75": "map_75", "ap_small": "map_small", "ap_large": "map_large"}
    for ours, theirs in names.items():
        assert figures[ours] == pytest.approx(expected[theirs].item(), abs=1e-6)


def test_counts_tell_finds_misses_and_duplicates_apart() -> None:
    boxes = torch.cat((BOXES[[0, 0, 1]], BOXES[1:] + 200))
    found = [entry([0, 0, 1, 0], boxes, [0.9, 0.8, 0.7, 0.6]), entry([], torch.zeros(0, 4), [])]
    truths = [entry([0, 0], BOXES), entry([1], BOXES[:1])]
    figures = found_counts(found, truths)
    assert figures == pytest.approx({"recall": 1 / 3, "precision": 1 / 4, "duplicates": 1 / 3})
    assert found_counts(found, truths, threshold=0.85)["precision"] == 1.0
    assert found_counts([], []) == {"recall": 0.0, "precision": 0.0, "duplicates": 0.0}
    with pytest.raises(ValueError, match="found must be one entry for each truth"):
        found_counts(found, truths[:1])


def test_nothing_is_printed(capsys: pytest.CaptureFixture) -> None:
    average_precision([entry([0], BOXES[:1], [0.9])], [entry([0], BOXES[:1])], CLASSES)
    assert capsys.readouterr().out == ""


def test_odd_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="found must be one entry for each truth, got 1 finds for 2 truths"):
        average_precision([entry([0], BOXES[:1], [0.9])], [entry([0], BOXES[:1])] * 2, CLASSES)
    with pytest.raises(ValueError, match="labels of truths must be 0 to 1"):
        average_precision([entry([0], BOXES[:1], [0.9])], [entry([2], BOXES[:1])], CLASSES)
    monkeypatch.setitem(__import__("sys").modules, "pycocotools.coco", None)
    with pytest.raises(ImportError, match=r"cs_transformers\[score\]"):
        average_precision([entry([0], BOXES[:1], [0.9])], [entry([0], BOXES[:1])], CLASSES)
