"""Boxes: two ways to write one down, and how well two of them agree.

Letters: A and B numbers of boxes. A box is (cx, cy, w, h), centre and size, or (x0, y0, x1, y1), two corners, with y
pointing down. Models speak of fractions of the image, pictures and scores of pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .errors import check_same_kind, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


def cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    """Turn centre and size into two corners.

    Args:
        boxes: (..., 4) as (cx, cy, w, h), in any unit.

    Returns:
        (..., 4) as (x0, y0, x1, y1), in that unit.

    Raises:
        TypeError: If ``boxes`` is no floating tensor.
        ValueError: If the last axis is not 4.

    Example:
        >>> cxcywh_to_xyxy(torch.tensor([5.0, 4.0, 6.0, 2.0]))
        tensor([2., 3., 8., 5.])
    """
    _check_last_axis("cxcywh_to_xyxy", "boxes", boxes)
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((centre - half, centre + half), dim=-1)  # (..., 4)


def xyxy_to_cxcywh(boxes: Tensor) -> Tensor:
    """Turn two corners into centre and size.

    Args:
        boxes: (..., 4) as (x0, y0, x1, y1), in any unit.

    Returns:
        (..., 4) as (cx, cy, w, h), in that unit.

    Raises:
        TypeError: If ``boxes`` is no floating tensor.
        ValueError: If the last axis is not 4.

    Example:
        >>> xyxy_to_cxcywh(torch.tensor([2.0, 3.0, 8.0, 5.0]))
        tensor([5., 4., 6., 2.])
    """
    _check_last_axis("xyxy_to_cxcywh", "boxes", boxes)
    first, second = boxes[..., :2], boxes[..., 2:]
    return torch.cat(((first + second) / 2, second - first), dim=-1)  # (..., 4)


def xywh_to_xyxy(boxes: Tensor) -> Tensor:
    """Turn COCO's corner and size into two corners.

    Args:
        boxes: (..., 4) as (x0, y0, w, h), in any unit.

    Returns:
        (..., 4) as (x0, y0, x1, y1), in that unit.

    Raises:
        TypeError: If ``boxes`` is no floating tensor.
        ValueError: If the last axis is not 4.

    Example:
        >>> xywh_to_xyxy(torch.tensor([2.0, 3.0, 6.0, 2.0]))
        tensor([2., 3., 8., 5.])
    """
    _check_last_axis("xywh_to_xyxy", "boxes", boxes)
    return torch.cat((boxes[..., :2], boxes[..., :2] + boxes[..., 2:]), dim=-1)  # (..., 4)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor, *, paired: bool = False) -> Tensor:
    """Compare boxes by their overlap and, where they are apart, by how much lies between them.

    IoU - (hull - union) / hull, where the hull is the smallest box around both. It runs from -1 (small boxes far apart)
    to 1 (the same box) and, unlike IoU, still says which of two misses is nearer. 0 / 0 counts as 0, so that boxes
    without an area give finite numbers and gradients.

    Args:
        boxes1: (A, 4) as (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1.
        boxes2: (B, 4) in the same form and unit.
        paired: Compare the first with the first, the second with the second and so on, instead of all with all.

    Returns:
        (A, B), or (A,) where ``paired``.

    Raises:
        TypeError: If an argument is no floating tensor, or the dtypes differ.
        ValueError: If a shape does not fit, a corner is NaN, or the second corner of a box comes before the first.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [2.0, 0.0, 4.0, 2.0], [6.0, 0.0, 8.0, 2.0]])
        >>> generalized_box_iou(boxes[:1], boxes)
        tensor([[ 1.0000,  0.0000, -0.5000]])

    Source:
        Rezatofighi et al. 2019, algorithm 1, arXiv:1902.09630.
    """
    who = "generalized_box_iou"
    check_corners(who, "boxes1", boxes1)
    check_corners(who, "boxes2", boxes2)
    check_same_kind(who, "boxes1", boxes1=boxes1, boxes2=boxes2)
    if paired and len(boxes1) != len(boxes2):
        got = f"{len(boxes1)} and {len(boxes2)}"
        raise ValueError(explain(who, "paired boxes", "as many as there are partners", got, "pass paired=False"))
    one, other = (boxes1, boxes2) if paired else (boxes1[:, None], boxes2[None])  # (A, 1, 4) and (1, B, 4)
    # Exercise 8.2: `one` and `other` broadcast to each other: treat their last axis alone (about 6 lines;
    # torch.minimum, torch.maximum, clamp). Width and height of the overlap are not negative. `ratio(a, b)` is a / b,
    # and 0 where b is 0.
    ### BEGIN SOLUTION 8.2
    shared = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp(min=0)
    around = torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])
    sizes = [box[..., 2:] - box[..., :2] for box in (one, other)]
    overlap, hull, first, second = (size[..., 0] * size[..., 1] for size in (shared, around, *sizes))  # (A, B)
    union = first + second - overlap
    return ratio(overlap, union) - ratio(hull - union, hull)
    ### END SOLUTION 8.2


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide, with 0 for anything over 0, in the gradient too.

    Args:
        numerator: Any shape.
        denominator: A shape that broadcasts with it.

    Returns:
        The quotients.

    Example:
        >>> ratio(torch.tensor([6.0, 0.0]), torch.tensor([3.0, 0.0]))
        tensor([2., 0.])
    """
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def check_corners(who: str, name: str, boxes: Tensor) -> None:
    """Require boxes as pairs of corners in the right order.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        boxes: What the caller gave.

    Raises:
        TypeError: If ``boxes`` is no floating tensor.
        ValueError: If the shape is not (any, 4), a corner is NaN, or the second corner comes before the first.

    Example:
        >>> check_corners("demo", "boxes", torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    """
    _check_last_axis(who, name, boxes)
    if boxes.dim() != 2:
        raise ValueError(explain(who, name, "of shape (A, 4)", tuple(boxes.shape), "give one row per box"))
    if boxes.device.type == "meta" or bool((boxes[:, 2:] >= boxes[:, :2]).all()):
        return  # a NaN fails the comparison too
    unknown = boxes.isnan().any(dim=1)
    if bool(unknown.any()):
        row = int(unknown.nonzero()[0])
        got = f"NaN in row {row}, {_row(boxes, row)}"
        raise ValueError(explain(who, name, "numbers", got, "look at what computed it: the weights, the learning rate"))
    row = int((boxes[:, 2:] < boxes[:, :2]).any(dim=1).nonzero()[0])
    expected, fix = "xyxy with x1 >= x0 and y1 >= y0", "did you pass cxcywh? convert it with cxcywh_to_xyxy"
    raise ValueError(explain(who, name, expected, f"{_row(boxes, row)} in row {row}", fix))


def check_fractions(who: str, name: str, boxes: Tensor) -> None:
    """Require target boxes as a model speaks of them: centre and size as fractions of the image.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        boxes: What the caller gave.

    Raises:
        TypeError: If ``boxes`` is no floating tensor.
        ValueError: If the shape is not (any, 4), or an entry is not from 0 to 1.

    Example:
        >>> check_fractions("demo", "boxes", torch.tensor([[0.5, 0.5, 1.0, 1.0]]))
    """
    _check_last_axis(who, name, boxes)
    if boxes.dim() != 2:
        raise ValueError(explain(who, name, "of shape (M, 4)", tuple(boxes.shape), "give one row per object"))
    if boxes.device.type == "meta":
        return
    for wrong, what in ((~boxes.isfinite(), "finite numbers"), ((boxes < -1e-6) | (boxes > 1 + 1e-6), "")):
        rows = wrong.any(dim=1)
        if bool(rows.any()):
            row = int(rows.nonzero()[0])
            expected = what or "normalised cxcywh in [0, 1]"
            fix = "divide pixels by the width and height of the image; COCO's (x, y, w, h) starts at a corner"
            raise ValueError(explain(who, name, expected, f"{_row(boxes, row)} in row {row}", fix))


def _row(boxes: Tensor, row: int) -> list[float]:
    return [round(value, 4) for value in boxes[row].tolist()]


def _check_last_axis(who: str, name: str, boxes: Tensor) -> None:
    check_tensor(who, name, boxes)
    if boxes.shape[-1:] != (4,):
        raise ValueError(explain(who, name, "of shape (..., 4)", tuple(boxes.shape), "give four numbers per box"))
