"""Boxes: conversions there and back, generalised IoU against torchvision and loops, and boxes that are none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cs_transformers import boxes
from cs_transformers.boxes import cxcywh_to_xyxy, generalized_box_iou, xywh_to_xyxy, xyxy_to_cxcywh


def some_boxes(count: int, seed: int = 0) -> Tensor:
    corners = torch.rand(2, count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cat((corners.amin(0), corners.amax(0)), dim=1)


def slow_giou(one: list[float], other: list[float]) -> float:
    wide = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    high = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)) - wide * high
    hull = (max(one[2], other[2]) - min(one[0], other[0])) * (max(one[3], other[3]) - min(one[1], other[1]))
    return wide * high / union - (hull - union) / hull


@pytest.mark.parametrize(("ours", "before", "after"), [
    (cxcywh_to_xyxy, "cxcywh", "xyxy"), (xyxy_to_cxcywh, "xyxy", "cxcywh"), (xywh_to_xyxy, "xywh", "xyxy"),
])  # fmt: skip
def test_conversions_equal_torchvisions(ours: object, before: str, after: str) -> None:
    from torchvision.ops import box_convert

    given = box_convert(some_boxes(7), "xyxy", before)
    torch.testing.assert_close(ours(given), box_convert(given, before, after), rtol=1e-12, atol=1e-12)


def test_there_and_back_changes_nothing() -> None:
    given = some_boxes(7)
    torch.testing.assert_close(cxcywh_to_xyxy(xyxy_to_cxcywh(given)), given, rtol=1e-12, atol=1e-12)


def test_generalised_iou_equals_torchvisions_and_loops() -> None:
    from torchvision.ops import generalized_box_iou as theirs

    first, second = some_boxes(5), some_boxes(7, seed=1)
    found = generalized_box_iou(first, second)
    torch.testing.assert_close(found, theirs(first, second), rtol=1e-9, atol=1e-9)
    looped = [[slow_giou(one, other) for other in second.tolist()] for one in first.tolist()]
    torch.testing.assert_close(found, torch.tensor(looped, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_pairs_are_the_diagonal_of_all_with_all() -> None:
    first, second = some_boxes(6), some_boxes(6, seed=1)
    paired = generalized_box_iou(first, second, paired=True)
    torch.testing.assert_close(paired, generalized_box_iou(first, second).diagonal(), rtol=0, atol=0)


def test_gradients_are_those_of_torchvisions_loss() -> None:
    from torchvision.ops import generalized_box_iou_loss

    first, second = some_boxes(6).requires_grad_(), some_boxes(6, seed=1)
    (ours,) = torch.autograd.grad(1 - generalized_box_iou(first, second, paired=True).sum(), first)
    (theirs,) = torch.autograd.grad(generalized_box_iou_loss(first, second, reduction="sum", eps=0.0), first)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_it_neither_depends_on_the_order_nor_on_the_unit() -> None:
    first, second = some_boxes(5), some_boxes(7, seed=1)
    found = generalized_box_iou(first, second)
    torch.testing.assert_close(found.T, generalized_box_iou(second, first), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found, generalized_box_iou(640 * first, 640 * second), rtol=1e-12, atol=1e-12)
    assert found.min() >= -1
    assert found.max() <= 1


@pytest.mark.parametrize(
    "other", [[0.5, 0.5, 0.5, 0.5], [0.2, 0.3, 0.2, 0.3], [0.1, 0.5, 0.9, 0.5], [0.4, 0.4, 0.6, 0.6]]
)
def test_boxes_without_an_area_give_finite_numbers_and_gradients(other: list[float]) -> None:
    point = torch.tensor([[0.5, 0.5, 0.5, 0.5]], requires_grad=True)
    found = generalized_box_iou(point, torch.tensor([other]))
    (gradient,) = torch.autograd.grad(found.sum(), point)
    assert -1 <= found.item() <= 1
    assert gradient.isfinite().all()


def test_no_boxes_at_all_give_an_empty_table() -> None:
    assert generalized_box_iou(torch.zeros(0, 4), some_boxes(3).float()).shape == (0, 3)
    assert generalized_box_iou(torch.zeros(0, 4), torch.zeros(0, 4), paired=True).shape == (0,)


def test_a_flipped_box_names_its_row_and_the_likely_reason() -> None:
    given = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.9, 0.9, 0.1, 0.1]])
    with pytest.raises(
        ValueError, match=r"xyxy with x1 >= x0 .* got \[0.9, 0.9, 0.1, 0.1\] in row 1; did you pass cxcywh"
    ):
        generalized_box_iou(given, given)


def test_not_a_number_is_called_so() -> None:
    given = torch.tensor([[0.0, 0.0, 1.0, float("nan")]])
    with pytest.raises(ValueError, match="boxes2 must be numbers, got NaN in row 0"):
        generalized_box_iou(torch.zeros(1, 4), given)


@pytest.mark.parametrize(("first", "second", "options", "message"), [
    (torch.zeros(2, 5), torch.zeros(2, 4), {}, r"boxes1 must be of shape \(\.\.\., 4\)"),
    (torch.zeros(4), torch.zeros(2, 4), {}, r"boxes1 must be of shape \(A, 4\)"),
    (torch.zeros(2, 4), torch.zeros(3, 4), {"paired": True}, "paired boxes must be as many"),
])  # fmt: skip
def test_wrong_shapes_are_refused(first: Tensor, second: Tensor, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generalized_box_iou(first, second, **options)


@pytest.mark.parametrize("function", [cxcywh_to_xyxy, xyxy_to_cxcywh, xywh_to_xyxy])
def test_conversions_refuse_whole_numbers_and_other_widths(function: object) -> None:
    with pytest.raises(TypeError, match="floating"):
        function(torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"\(\.\.\., 4\)"):
        function(torch.zeros(2, 3))


@pytest.mark.parametrize("row", [[20.0, 183.0, 49.0, 173.0], [0.1, 0.1, 1.2, 0.4], [-0.1, 0.5, 0.2, 0.2]])
def test_targets_in_pixels_are_recognised_with_their_row(row: list[float]) -> None:
    given = torch.tensor([[0.5, 0.5, 0.2, 0.2], row])
    with pytest.raises(ValueError, match=r"normalised cxcywh in \[0, 1\], got \[.*\] in row 1; divide pixels"):
        boxes.check_fractions("demo", "boxes", given)


def test_fractions_need_rows_of_four_finite_numbers() -> None:
    with pytest.raises(ValueError, match=r"finite numbers, got .*in row 0"):
        boxes.check_fractions("demo", "boxes", torch.tensor([[float("inf"), 0.5, 0.1, 0.1]]))
    with pytest.raises(ValueError, match=r"\(M, 4\)"):
        boxes.check_fractions("demo", "boxes", torch.zeros(4))
    boxes.check_fractions("demo", "boxes", torch.zeros(0, 4))
