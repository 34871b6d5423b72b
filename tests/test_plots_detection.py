"""Pictures of notebook 08: what they show and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from cs_transformers import plots

IMAGE = torch.rand(3, 20, 30)
FOUND = {
    "labels": torch.tensor([1, 0]),
    "boxes": torch.tensor([[1.0, 2, 9, 8], [10, 5, 20, 15]]),
    "scores": torch.tensor([0.9, 0.4]),
}
CLASSES = ("circle", "square")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def texts(figure: plt.Figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_found_objects_have_a_frame_a_name_and_a_score() -> None:
    truth = {"boxes": FOUND["boxes"][:1]}
    figure = plots.found_objects([IMAGE, IMAGE], [FOUND, FOUND], CLASSES, truths=[truth, truth], titles=["a", "b"])
    assert texts(figure) == ["square 0.90", "circle 0.40"] * 2
    assert [len(axes.patches) for axes in figure.axes] == [3, 3]
    frame = figure.axes[0].patches[1]
    assert (*frame.get_xy(), frame.get_width(), frame.get_height()) == (0.5, 1.5, 8, 6)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]


def test_nothing_found_is_a_picture_without_frames() -> None:
    nothing = {"labels": torch.zeros(0), "boxes": torch.zeros(0, 4)}
    assert not plots.found_objects([IMAGE], [nothing], CLASSES).axes[0].patches


def test_the_cheapest_pairs_are_ringed() -> None:
    cost = torch.tensor([[1.0, 5.0], [3.0, 0.5], [9.0, 9.0]])
    boxes = torch.tensor([[1.0, 2, 9, 8], [10, 5, 20, 15], [0, 0, 3, 3]])
    figure = plots.matching(IMAGE, boxes, FOUND["boxes"], cost, ([0, 1], [0, 1]), names=CLASSES)
    left, right = figure.axes[:2]
    assert [text.get_text() for text in left.texts] == ["A", "B", "0", "1", "2"]
    assert [patch.get_xy() for patch in right.patches] == [(-0.5, -0.5), (0.5, 0.5)]
    assert [text.get_text() for text in right.texts] == ["1.0", "5.0", "3.0", "0.5", "9.0", "9.0"]
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["A\ncircle", "B\nsquare"]


def test_curves_specialities_looks_and_points_are_labelled() -> None:
    curves = plots.overlap_curves([0, 1, 2], {"IoU": [1, 0, 0], "GIoU": [1, 0, -0.3]}, title="apart")
    assert curves.axes[0].get_xlabel()
    assert [text.get_text() for text in curves.axes[0].get_legend().get_texts()] == ["IoU", "GIoU"]
    figure = plots.query_specialities(np.random.RandomState(0).rand(6, 3, 2), np.full((6, 3, 2), 0.2), columns=2)
    assert [axes.get_title() for axes in figure.axes[:3]] == ["query 0", "query 1", "query 2"]
    figure = plots.query_attention(IMAGE, torch.rand(2, 4, 6), FOUND["boxes"], ["a", "b"])
    assert [len(axes.images) for axes in figure.axes] == [2, 2]
    figure = plots.sampling_points(IMAGE, torch.rand(2, 2), torch.rand(2, 3, 4, 2), torch.rand(2, 3, 4), ["a", "b"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["level 0", "level 1", "level 2"]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: plots.found_objects([], [], CLASSES), "images must be one or more"),
    (lambda: plots.found_objects([IMAGE], [], CLASSES), "found must be 1, one per picture"),
    (lambda: plots.found_objects([IMAGE[:2]], [FOUND], CLASSES), r"image must be of shape \(3, H, W\)"),
    (lambda: plots.matching(IMAGE, torch.rand(3, 4), torch.rand(2, 4), torch.rand(2, 3), ([], [])), "cost must be of"),
    (lambda: plots.overlap_curves([0, 1], {"IoU": [1]}), "IoU must be of length 2"),
    (lambda: plots.query_specialities(torch.rand(2, 3, 2), torch.rand(2, 4, 2)), r"sizes must be of shape \(2, 3, 2\)"),
    (lambda: plots.query_attention(IMAGE, torch.rand(2, 4, 6), torch.rand(1, 4), ["a", "b"]), "boxes must be 2"),
    (lambda: plots.sampling_points(IMAGE, torch.rand(2, 2), torch.rand(2, 3, 4, 2), torch.rand(2, 3, 5), ["a", "b"]),
     "places, shares and references"),
])  # fmt: skip
def test_wrong_shapes_are_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
