"""Pictures of notebook 04: what they show is what they were given, and what they cannot draw is refused."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from cs_transformers import plots
from cs_transformers.plots.captions import COMPUTED, REMEMBERED
from cs_transformers.plots.style import COLOURS

TREE = {(): {"a": 0.6, "two": 0.4}, ("a",): {"dog": 0.5, "cat": 0.5}, ("two",): {"dogs": 0.9, "cats": 0.1}}
PHOTOS = [np.zeros((6, 4, 3), np.uint8), np.full((3, 5, 3), 200, np.uint8), np.ones((4, 4, 3))]


@pytest.fixture(autouse=True)
def _plain_figures():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


FIGURES = {
    "caption_grid": lambda: plots.caption_grid(
        PHOTOS, ["one", "two", "three"], ["un", "deux", "trois"], [True, False, True]
    ),
    "captioner_diagram": lambda: plots.captioner_diagram(),
    "shifted_pair": lambda: plots.shifted_pair(["<START>", "a", "dog", "<END>", "<NULL>"]),
    "cache_pictures": lambda: plots.cache_pictures(["<START>", "a", "dog"]),
    "word_tree": lambda: plots.word_tree(TREE, {"greedy": ["a", "dog"]}),
    "word_attention": lambda: plots.word_attention(
        PHOTOS[0], ["a", "dog", "<END>"], torch.rand(3, 6), (2, 3), columns=2
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_is_laid_out_and_painted_without_a_warning(name: str) -> None:
    figure = FIGURES[name]()
    figure.canvas.draw()
    assert figure.axes


def test_a_caption_stands_under_its_image_above_the_reference_with_its_verdict() -> None:
    panels = plots.caption_grid(PHOTOS, ["one", "two", "three"], ["un", "deux", "trois"], [True, False, True]).axes
    assert [texts(axes) for axes in panels] == [["\u2713 one", "un"], ["\u2717 two", "deux"], ["\u2713 three", "trois"]]
    assert [axes.texts[0].get_color() for axes in panels] == [COLOURS[0], COLOURS[3], COLOURS[0]]
    for axes, photo in zip(panels, PHOTOS, strict=True):
        assert np.array_equal(axes.get_images()[0].get_array(), photo)


def test_captions_without_verdicts_are_black_and_empty_places_of_the_grid_stay_empty() -> None:
    figure = plots.caption_grid(PHOTOS, ["one", "two", "three"], title="photos", columns=2)
    assert [texts(axes) for axes in figure.axes] == [["one"], ["two"], ["three"], []]
    assert figure.axes[0].texts[0].get_color() == "black"
    assert figure.get_suptitle() == "photos"


@pytest.mark.parametrize("photo", [PHOTOS[0], PHOTOS[1]], ids=["upright", "wide"])
def test_a_long_caption_does_not_run_into_its_reference(photo) -> None:
    figure = plots.caption_grid([photo] * 4, ["a small red circle " * 5] * 4, ["another picture " * 4] * 4)
    figure.canvas.draw()
    for axes in figure.axes:
        written, human = (text.get_window_extent() for text in axes.texts)
        assert human.y1 <= written.y0
        assert written.y1 <= axes.get_window_extent().y0


def test_the_shifted_pair_asks_for_the_next_word_and_greys_out_padding() -> None:
    axes = plots.shifted_pair(["<START>", "a", "<END>", "<NULL>"]).axes[0]
    words = [text for text in texts(axes) if text]  # the arrows are texts without letters
    assert words == ["<START>", "a", "a", "<END>", "<END>", "<NULL>"]
    colours = [to_rgb(patch.get_facecolor()) for patch in axes.patches if isinstance(patch, plt.Rectangle)]
    assert [colour == to_rgb("#DDDDDD") for colour in colours[:6]] == [False, False, False, False, True, True]


def test_the_cache_saves_all_but_one_computation_per_step() -> None:
    without, with_cache = plots.cache_pictures(["<START>", "a", "dog", "runs"]).axes
    assert without.get_title() == "without a cache: 10 computed"
    assert with_cache.get_title() == "with a cache: 4 computed"
    image = with_cache.get_images()[0]
    shown = image.cmap(image.norm(image.get_array()))[..., :3]
    assert np.allclose(shown[2], [to_rgb(colour) for colour in (REMEMBERED, REMEMBERED, COMPUTED, "#FFFFFF")])


def test_the_tree_multiplies_along_its_branches_and_colours_the_paths() -> None:
    axes = plots.word_tree(TREE, {"greedy": ["a", "dog"], "best": ["two", "dogs"]}).axes[0]
    leaves = [text for text in axes.texts if text.get_text().startswith("=")]
    assert [leaf.get_text().strip() for leaf in leaves] == ["= 0.30  greedy", "= 0.30", "= 0.36  best", "= 0.04"]
    assert [leaf.get_color() for leaf in leaves] == [COLOURS[3], "#444444", COLOURS[0], "#444444"]
    assert "dogs  0.90" in texts(axes)
    assert sum(line.get_color() == COLOURS[3] for line in axes.lines) == 2


def test_attention_covers_the_place_of_its_weight_and_the_title_tells_the_largest() -> None:
    weights = torch.tensor([[0.1, 0.0, 0.7, 0.1, 0.1, 0.0]])
    axes = plots.word_attention(PHOTOS[0], ["dog"], weights, (2, 3)).axes[0]
    photo, heat = axes.get_images()
    assert axes.get_title() == "dog\n0.70"
    opacity = np.asarray(heat.get_array())[..., 3]
    assert opacity.shape == (2, 3)
    assert np.allclose(opacity, 0.8 * weights[0].reshape(2, 3) / 0.7)
    assert heat.get_extent() == photo.get_extent()


def test_the_diagram_names_the_parts_of_the_captioner() -> None:
    words = texts(plots.captioner_diagram().axes[0])
    for part in ("visual_projection", "embedding", "+ positional_encoding", "transformer (decoder)", "output"):
        assert part in words


REFUSED = {
    "no picture": (lambda: plots.caption_grid([], []), "images must be one or more pictures, got none"),
    "a picture without a caption": (lambda: plots.caption_grid(PHOTOS, ["one"]), "captions must be 3 labels, got 1"),
    "too many references": (
        lambda: plots.caption_grid(PHOTOS[:1], ["one"], ["un", "deux"]),
        "references must be 1 labels, got 2",
    ),
    "a missing verdict": (
        lambda: plots.caption_grid(PHOTOS, ["a", "b", "c"], right=[True]),
        "right must be 3 labels, got 1",
    ),
    "a word without a next": (lambda: plots.shifted_pair(["<START>"]), "words must be two or more, got 1"),
    "no step": (lambda: plots.cache_pictures([]), "words must be one or more, got none"),
    "a tree without a root": (lambda: plots.word_tree({("a",): {"b": 1.0}}), "branches must be a tree with a root"),
    "a path beside the tree": (
        lambda: plots.word_tree(TREE, {"greedy": ["a", "cow"]}),
        "the path 'greedy' must be a sentence of the tree",
    ),
    "another grid": (
        lambda: plots.word_attention(PHOTOS[0], ["a"], [[0.5, 0.5]], (2, 2)),
        "weights must be 4 places of a grid",
    ),
    "a word too many": (
        lambda: plots.word_attention(PHOTOS[0], ["a", "dog"], [[0.5, 0.5]], (1, 2)),
        "words must be 1 labels, got 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_with_the_reason(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()
    assert not plt.get_fignums()
