from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import ConnectionPatch, Rectangle

from cs_transformers.plots import overlap_counts, reference_arrows, restoration_grid, signed_maps

GOOD = np.random.RandomState(0).rand(3, 8, 12)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_errors_stand_beside_the_images_and_shrink_with_them() -> None:
    figure = restoration_grid({"noise": (GOOD + 0.3, GOOD + 0.1, GOOD), "rain": (GOOD, GOOD, GOOD)})
    panels = [axes for axes in figure.axes if axes.get_images()]
    assert [axes.get_title() for axes in panels[:5]] == ["given", "restored", "true", "error before", "error after"]
    before, after = (panels[column].get_images()[0].get_array() for column in (3, 4))
    assert before.shape == (8, 12)
    assert before.mean() > after.mean() > 0
    np.testing.assert_allclose(after.data, np.abs((GOOD + 0.1).clip(0, 1) - GOOD).mean(axis=0))
    assert [panels[row].get_ylabel() for row in (0, 5)] == ["noise", "rain"]


def test_signed_maps_share_a_scale_around_zero() -> None:
    figure = signed_maps({"a": np.full((3, 4), -2.0), "b": np.ones((3, 4))}, label="change")
    limits = {axes.get_images()[0].get_clim() for axes in figure.axes if axes.get_images()}
    assert limits == {(-2.0, 2.0)}
    assert "change" in [axes.get_ylabel() for axes in figure.axes]


def test_every_count_is_written_down() -> None:
    figure = overlap_counts({"corners": [[4, 6], [6, 9]]})
    assert [text.get_text() for text in figure.axes[0].texts] == ["4", "6", "6", "9"]


def test_arrows_go_from_a_place_to_the_place_that_the_index_names() -> None:
    reference = np.zeros((3, 8, 16))
    figure = reference_arrows(GOOD, reference, [7, 0, 1, 2, 3, 4], (2, 4), [(0, 0), (1, 2)])
    arrows = [artist for artist in figure.artists if isinstance(artist, ConnectionPatch)]
    assert len(arrows) == 4  # each with its rim
    assert (arrows[0].xy1, arrows[0].xy2) == ((0.5, 0.5), (3.5, 1.5))
    assert (arrows[2].xy1, arrows[2].xy2) == ((2.5, 1.5), (0.5, 1.5))
    framed = [patch.get_xy() for patch in figure.axes[1].patches if isinstance(patch, Rectangle)]
    assert framed == [(3, 1), (3, 1), (0, 1), (0, 1)]


def arrows(index: list[int], grid: tuple[int, int], places: list[tuple[int, int]]) -> object:
    return reference_arrows(GOOD, np.zeros((3, 8, 16)), index, grid, places)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("rows must be one or more", lambda: restoration_grid({})),
        ("three images .3, H, W. of one size", lambda: restoration_grid({"a": (GOOD, GOOD[:, :4], GOOD)})),
        ("three images .3, H, W. of one size", lambda: restoration_grid({"a": (GOOD, GOOD)})),
        ("the panels must be one or more", lambda: signed_maps({}, label="x")),
        ("must be an array with 2 axes", lambda: overlap_counts({"a": [1, 2]})),
        ("index must be 6 places of a grid of 2 by 4", lambda: arrows([8] * 6, (2, 4), [])),
        ("index must be 6 places of a grid of 2 by 4", lambda: arrows([0], (2, 4), [])),
        ("a place must be inside 2 rows and 3 columns", lambda: arrows([0] * 6, (2, 4), [(2, 0)])),
    ],
)
def test_what_does_not_belong_together_is_refused(message: str, call: object) -> None:
    with pytest.raises(ValueError, match=message):
        call()
