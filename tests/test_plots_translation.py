"""Pictures of notebook 07: drawn from small inputs, labelled, and refusing what they cannot draw."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from cs_transformers.plots import alignment_map, named_curves, translator_diagram, wanted_bars, word_masks

mpl.use("Agg")
READ, WRITTEN = ["ein", "Hund", "<END>"], ["a", "dog", "runs", "<END>"]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def labels(figure: Figure) -> set[str]:
    figure.canvas.draw()
    return {text.get_text() for text in figure.findobj(mpl.text.Text)}


def test_the_diagram_names_both_ways_and_three_masks() -> None:
    figure = translator_diagram()
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert {"encoder", "decoder: memory", "cross-attention", "(N, T, V): scores"} <= set(texts)
    assert texts.count("source mask") == 2
    assert texts.count("target mask") == 1


def test_masks_stand_beside_their_words() -> None:
    mask = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=torch.bool)
    figure = word_masks({"one": (mask, WRITTEN, READ), "other": (mask.T, READ, WRITTEN)})
    assert {"one", "other", "may look", "hidden", *READ, *WRITTEN} <= labels(figure)
    assert np.array_equal(figure.axes[0].images[0].get_array(), mask.numpy())


def test_alignments_have_a_panel_for_each_head() -> None:
    weights = torch.rand(2, 4, 3)
    figure = alignment_map(weights, WRITTEN, READ)
    assert {"head 0", "head 1", "read", "written", "attention weight", *READ, *WRITTEN} <= labels(figure)
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), weights[1])
    assert "mean" in labels(alignment_map(weights[:1], WRITTEN, READ, titles=["mean"]))


def test_bars_carry_their_numbers_and_curves_their_names() -> None:
    figure = wanted_bars({"none": [0.0, 1.0], "some": [0.25, 0.75]}, ["a", "b"], title="what is wanted")
    assert {"none", "some", "0.25", "0.75", "what is wanted", "wanted probability"} <= labels(figure)
    figure = named_curves([1, 2, 3], {"up": [1, 2, 3], "down": [3, 2, 1]}, xlabel="step", ylabel="rate", title="two")
    assert {"up", "down", "step", "rate", "two"} <= labels(figure)
    marks = [line.get_marker() for line in figure.axes[0].lines]
    assert len(set(marks)) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: word_masks({}), "word_masks: the panels must be one or more"),
        (lambda: word_masks({"m": (torch.ones(2), READ, READ)}), "word_masks: 'm' must be an array with 2 axes"),
        (lambda: word_masks({"m": (torch.ones(3, 2), READ, READ)}), "words of the columns must be 2 labels, got 3"),
        (lambda: alignment_map(torch.ones(4, 3), WRITTEN, READ), "weights must be an array with 3 axes"),
        (lambda: alignment_map(torch.ones(1, 4, 3), READ, READ), "written must be 4 labels, got 3"),
        (lambda: wanted_bars({"p": [1.0]}, ["a", "b"]), r"wanted_bars: 'p' must be of length 2, got 1"),
        (
            lambda: named_curves([1], {"c": [1, 2]}, xlabel="", ylabel=""),
            r"named_curves: .c. must be of length 1",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
