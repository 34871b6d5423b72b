from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from classroom_factory import HOSTILE, PICTURE

from cs_transformers.grading.pictures import LARGEST, histogram, side_by_side


def drawn(picture: dict) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(side_by_side(picture)).iter())


def colours(picture: dict) -> list[str | None]:
    return [one.get("fill") for one in drawn(picture) if one.tag == "rect" and one.get("width") == "20"]


def dots(picture: dict) -> int:
    return sum(one.tag == "circle" for one in drawn(picture))


def test_every_entry_is_a_cell_and_those_that_differ_have_a_dot() -> None:
    assert sum(one.tag == "rect" and one.get("width") == "20" for one in drawn(PICTURE)) == 30
    # 15 entries, of which (0, 3), (1, 4), (2, 0) agree and one has no number.
    assert dots(PICTURE) == 11


def test_equal_numbers_have_equal_colours_and_no_dot() -> None:
    same = {"expected": [[1.0, -2.0], [0.0, 3.0]], "got": [[1.0, -2.0], [0.0, 3.0]]}
    fills = colours(same)
    assert fills[:4] == fills[4:]
    assert len(set(fills[:4])) == 4
    assert dots(same) == 0


def test_the_scale_comes_from_what_was_expected() -> None:
    fills = colours({"expected": [[0.0, 1.0]], "got": [[0.0, 1e9]]})
    assert fills[:2] == fills[2:], "a huge number takes the last colour and does not stretch the scale"


def test_shapes_that_differ_are_both_shown() -> None:
    picture = {"expected": [[1.0, 2.0, 3.0]], "got": [[1.0], [2.0]]}
    texts = [one.text for one in drawn(picture) if one.tag == "text"]
    assert "expected (1 x 3)" in texts
    assert "got (2 x 1)" in texts
    assert dots(picture) == 2


def test_large_arrays_are_cut_and_say_so() -> None:
    row = list(range(500))
    svg = side_by_side({"expected": [row] * 400, "got": [row] * 400})
    assert f"(400 x 500, first {LARGEST} x {LARGEST} shown)" in svg
    assert len(svg) < 60_000


@pytest.mark.parametrize("values", [None, [], [[]], "text", [["a"]], {"a": 1}, [[[]]]])
def test_what_is_no_array_gives_no_picture(values: object) -> None:
    assert side_by_side({"expected": [[1.0]], "got": values}) == ""


def test_more_axes_show_their_first_entries() -> None:
    assert side_by_side({"expected": [[[[1.0, 2.0]]]], "got": [1.0, 2.0]}).count('width="20"') == 4


def test_what_is_not_finite_is_named() -> None:
    texts = [one.text for one in drawn({"expected": [[0.0, 1.0, 2.0]], "got": [[None, float("inf"), -float("inf")]]})]
    assert [text for text in texts if text in ("NaN", "∞", "-∞")] == ["NaN", "∞", "-∞"]


@pytest.mark.parametrize("label", HOSTILE, ids=range(len(HOSTILE)))
def test_a_label_is_text(label: str) -> None:
    svg = side_by_side({**PICTURE, "label": label})
    assert {one.tag for one in ElementTree.fromstring(svg).iter()} == {"svg", "title", "text", "rect", "circle"}
    assert len(svg) < 20_000


def test_a_histogram_counts_everybody_once() -> None:
    svg = histogram([0.0, 0.05, 0.1, 0.99, 1.0, 1.3, -0.2])
    counts = [int(one.text) for one in ElementTree.fromstring(svg).iter("text") if float(one.get("y")) < 180]
    assert counts == [3, 1, 3]
    assert svg.count('class="bar"') == 10


@pytest.mark.parametrize(("share", "bar"), [(0.1, 1), (0.3, 3), (0.7, 7), (0.299, 2), (1.0, 9)])
def test_a_share_on_an_edge_belongs_to_the_bar_above(share: float, bar: int) -> None:
    heights = [int(height) for height in re.findall(r'height="(\d+)" class="bar"', histogram([share]))]
    assert heights.index(max(heights)) == bar


def test_a_histogram_of_nobody_is_flat() -> None:
    assert set(re.findall(r'height="(\d+)" class="bar"', histogram([]))) == {"0"}
