"""Pictures of images and patches: they show what they were given, in its order, and refuse what they cannot draw."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt

from cs_transformers import plots

IMAGE = torch.randint(0, 256, (3, 6, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
IMAGES = torch.stack([IMAGE, IMAGE.flip(1), IMAGE.flip(2)])


@pytest.fixture(autouse=True)
def _plain_figures():
    with mpl.rc_context():
        plots.use_style()
        yield
    plt.close("all")


def pictures(axes) -> list[np.ndarray]:
    return [np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan) for image in axes.get_images()]


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def ticks(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


FIGURES = {
    "image_grid": lambda: plots.image_grid(IMAGES, ["a\nb", "c", "d"], columns=2),
    "patch_cut": lambda: plots.patch_cut(IMAGE, (3, 2)),
    "patch_vector": lambda: plots.patch_vector(IMAGE, (3, 5), 2),
    "position_similarity": lambda: plots.position_similarity({"t": np.random.RandomState(0).rand(6, 4)}, (2, 3)),
    "patch_attention": lambda: plots.patch_attention(IMAGES, torch.rand(3, 2, 3, 5), ["a", "b", "c"]),
    "confusion_grid": lambda: plots.confusion_grid([[3, 0], [1, 2]], ["cat", "dog"]),
    "lucky_choice": lambda: plots.lucky_choice([0.1, 0.3, 0.2], [0.2, 0.1, 0.15]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_is_painted_without_a_warning_and_says_what_it_shows(name: str) -> None:
    figure = FIGURES[name]()
    figure.canvas.draw()  # a label that does not fit or a missing glyph warns, and a warning is an error
    assert any(axes.get_title() for axes in figure.axes)


def test_image_grid_keeps_the_order_and_leaves_the_rest_of_the_last_row_empty() -> None:
    first, second, third, fourth = plots.image_grid(IMAGES / 255, ["one", "two", "three"], columns=2).axes
    for axes, image, title in zip((first, second, third), IMAGES, ("one", "two", "three"), strict=True):
        np.testing.assert_allclose(pictures(axes)[0], image.permute(1, 2, 0).numpy() / 255, atol=1e-6)
        assert axes.get_title() == title
    assert not fourth.get_images()
    assert not fourth.axison


def test_patch_cut_reads_the_patches_of_a_rectangle_row_by_row() -> None:
    left, right = plots.patch_cut(IMAGE, (3, 2)).axes
    patches = pictures(right)
    assert len(patches) == 2 * 5
    for number, patch in enumerate(patches):
        row, column = divmod(number, 5)
        cut = IMAGE[:, 3 * row : 3 * row + 3, 2 * column : 2 * column + 2]
        np.testing.assert_allclose(patch, cut.permute(1, 2, 0).numpy() / 255)
    assert texts(left) == texts(right) == [str(number) for number in range(10)]


def test_patch_cut_puts_the_number_of_a_patch_into_its_cell() -> None:
    left, _ = plots.patch_cut(IMAGE, (3, 2)).axes
    assert left.texts[7].get_position() == (2.5, 1.5)


def test_patch_vector_flattens_channel_by_channel_and_each_channel_row_by_row() -> None:
    axes = plots.patch_vector(IMAGE, (3, 5), 3).axes
    vector = next(one for one in axes if one.patches)
    heights = [bar.get_height() for bar in vector.patches]
    np.testing.assert_allclose(heights, IMAGE[:, 3:, 5:].reshape(-1).numpy() / 255)
    colours = [bar.get_facecolor() for bar in vector.patches]
    assert len({*colours[:15]}) == len({*colours[15:30]}) == 1
    assert len(set(colours)) == 3


def test_position_similarity_lays_the_map_of_a_patch_at_its_place() -> None:
    table = np.random.RandomState(1).rand(6, 4)
    picture = pictures(plots.position_similarity({"table": table}, (2, 3)).axes[0])[0]
    centred = table - table.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    for number in range(6):
        row, column = divmod(number, 3)
        small = picture[3 * row : 3 * row + 2, 4 * column : 4 * column + 3]
        np.testing.assert_allclose(small, (unit @ unit[number]).reshape(2, 3), atol=1e-9)
    assert np.isnan(picture[2]).all()
    assert np.isnan(picture[:, 3]).all()


def test_position_similarity_survives_positions_that_are_all_alike() -> None:
    picture = pictures(plots.position_similarity({"zeros": np.zeros((4, 2))}, (2, 2)).axes[0])[0]
    assert np.nansum(np.abs(picture)) == 0


def test_patch_attention_lays_each_head_over_the_whole_image_in_a_scale_of_its_own() -> None:
    weights = torch.rand(3, 2, 3, 5, generator=torch.Generator().manual_seed(2))
    figure = plots.patch_attention(IMAGES, weights, ["a", "b", "c"])
    image, _, second = figure.axes[3:6]  # the row of the second image
    np.testing.assert_allclose(pictures(image)[0], IMAGES[1].permute(1, 2, 0).numpy() / 255)
    below, above = second.get_images()
    np.testing.assert_allclose(above.get_array(), weights[1, 1] / weights[1, 1].max(), atol=1e-6)
    assert below.get_extent() == above.get_extent() == [0, 10, 6, 0]
    assert f"{weights[1, 1].max():.2f}" in second.get_title()


def test_patch_attention_draws_a_head_without_any_weight() -> None:
    figure = plots.patch_attention(IMAGES[:1], torch.zeros(1, 1, 2, 2))
    figure.canvas.draw()
    assert "0.00" in figure.axes[1].get_title()


def test_confusion_grid_has_the_right_class_in_the_row_and_no_zeros() -> None:
    axes = plots.confusion_grid(torch.tensor([[3, 0], [1, 2]]), ["cat", "dog"]).axes[0]
    written = {tuple(map(int, text.get_position()[::-1])): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "3", (1, 0): "1", (1, 1): "2"}
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("right class", "predicted class")
    assert ticks(axes.xaxis) == ticks(axes.yaxis) == ["cat", "dog"]
    np.testing.assert_allclose(pictures(axes)[0], [[1, 0], [1 / 3, 2 / 3]])


def test_confusion_grid_draws_a_class_that_never_occurs() -> None:
    axes = plots.confusion_grid([[0, 0], [0, 2]], ["cat", "dog"]).axes[0]
    assert pictures(axes)[0].tolist() == [[0, 0], [0, 1]]


def test_lucky_choice_follows_the_best_of_the_validation_images_to_new_ones() -> None:
    axes = plots.lucky_choice([0.1, 0.3, 0.1], [0.2, 0.15, 0.4]).axes[0]
    assert [line.get_xdata()[0] for line in axes.lines] == [pytest.approx(30), pytest.approx(15)]
    assert [bar.get_height() for bar in axes.patches] == [2, 1]


REFUSED = {
    "normalised images": (lambda: plots.image_grid(IMAGES - 300.0), r"images must be of shape \(M, 3, H, W\), bytes"),
    "channels last": (lambda: plots.image_grid(IMAGES.permute(0, 2, 3, 1)), r"got shape \(3, 6, 10, 3\)"),
    "a single image": (lambda: plots.image_grid(IMAGE), "images must be an array with 4 axes"),
    "too few titles": (lambda: plots.image_grid(IMAGES, ["a"]), "titles must be 3 labels, got 1"),
    "no column": (lambda: plots.image_grid(IMAGES, columns=0), "columns must be a positive whole number"),
    "half a patch": (lambda: plots.patch_cut(IMAGE, (4, 2)), "patch_size must be divisors of the image's 6 by 10"),
    "an empty patch": (lambda: plots.patch_cut(IMAGE, (0, 2)), "patch_size must be divisors"),
    "a patch too far": (lambda: plots.patch_vector(IMAGE, (3, 5), 4), "number must be from 0 to 3, got 4"),
    "a class token too many": (
        lambda: plots.position_similarity({"t": np.ones((7, 4))}, (2, 3)),
        "'t' must be 6 rows for a grid of 2 by 3, got 7; leave out the class token",
    ),
    "no table": (lambda: plots.position_similarity({}, (2, 3)), "the panels must be one or more, got none"),
    "weights without a grid": (
        lambda: plots.patch_attention(IMAGES, torch.rand(3, 2, 15)),
        "weights must be an array with 4 axes",
    ),
    "weights of other images": (
        lambda: plots.patch_attention(IMAGES, torch.rand(2, 2, 3, 5)),
        "weights must be for 3 images, got 2",
    ),
    "counts of a rectangle": (lambda: plots.confusion_grid(np.eye(2, 3), "ab"), "counts must be a square matrix"),
    "too many classes": (lambda: plots.confusion_grid(np.eye(2), "abc"), "classes must be 2 labels, got 3"),
    "accuracies of other models": (lambda: plots.lucky_choice([0.1, 0.2], [0.1]), "test must be 2 accuracies, got 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_before_a_figure_is_opened(case: str) -> None:
    draw, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        draw()
    assert not plt.get_fignums()
