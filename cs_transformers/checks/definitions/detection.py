"""Checks of notebook 08: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from cs_transformers import boxes, deformable, detection, matching

from .probe import D, H, N, Probe, S, T, check

QUERIES, OBJECTS, CLASSES = 7, 4, 3
LEVELS, POINTS = 2, 6
SIZES = [(4, 5), (2, 3)]


@check("8.1")
def _sine_grid(probe: Probe) -> None:
    """A whole grid, grids with padding, another wavelength and a shift."""
    whole = torch.ones(1, 3, 5, dtype=torch.bool)
    padded = torch.zeros(N, S, T, dtype=torch.bool)
    padded[0], padded[1, :3, :2], padded[2, :1, :3] = True, True, True
    with probe.part("values"):
        probe.record("positions", detection.sine_grid(whole, D))
        probe.record("positions of another width", detection.sine_grid(whole, 8))
    with probe.part("values: padding"):
        probe.record("positions with padding", detection.sine_grid(padded, D) * padded.unsqueeze(-1))
    with probe.part("values: shift and temperature"):
        probe.record("positions from the middle of the cells", detection.sine_grid(whole, D, shift=-0.5))
        probe.record("positions with short waves", detection.sine_grid(whole, D, temperature=20.0))


@check("8.2")
def _generalized_box_iou(probe: Probe) -> None:
    """Boxes apart, across and inside each other; pairs; boxes without an area; gradients."""
    first, second = _corners(probe, "first", 5), _corners(probe, "second", 4)
    with probe.part("values"):
        probe.record("overlaps", boxes.generalized_box_iou(first, second))
        nested = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 2.0, 3.0], [6.0, 0.0, 8.0, 1.0]], dtype=torch.float64)
        probe.record("overlaps of nested and distant boxes", boxes.generalized_box_iou(nested, nested))
    with probe.part("values: pairs"):
        probe.record("overlaps of pairs", boxes.generalized_box_iou(first[:4], second, paired=True))
    with probe.part("values: boxes without an area"):
        flat = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.2, 0.5, 0.8, 0.5], [0.1, 0.1, 0.1, 0.1]], dtype=torch.float64)
        probe.record("overlaps of points and lines", boxes.generalized_box_iou(flat, flat))
    with probe.part("gradients"):
        probe.gradients(boxes.generalized_box_iou(first, second), first=first, second=second)


@check("8.3")
def _matching_cost(probe: Probe) -> None:
    """Each term alone, all together for the focal loss, and who is matched to whom."""
    logits, predicted = probe.tensor("logits", QUERIES, CLASSES + 1, scale=2.0), _boxes(probe, "boxes", QUERIES)
    labels, true = probe.integers("labels", OBJECTS, high=CLASSES), _boxes(probe, "true boxes", OBJECTS)
    labels[:2] = torch.tensor([2, 0])
    terms = {"class": (1.0, 0.0, 0.0), "distance": (0.0, 1.0, 0.0), "overlap": (0.0, 0.0, 1.0)}
    for name, weights in terms.items():
        with probe.part(f"values: {name}"):
            probe.record("cost", matching.matching_cost(logits, predicted, labels, true, weights=weights))
    with probe.part("values: classes one by one"):
        options = {"weights": (2.0, 5.0, 3.0), "focal": True}
        probe.record("cost", matching.matching_cost(logits[:, :-1], predicted, labels, true, **options))
    with probe.part("invariant: the assignment"):
        outputs = {"pred_logits": logits.unsqueeze(0), "pred_boxes": predicted.unsqueeze(0)}
        found = matching.HungarianMatcher()(outputs, [{"labels": labels, "boxes": true.detach()}])
        probe.record("queries", found[0][0])
        probe.record("objects", found[0][1])


@check("8.4")
def _set_loss(probe: Probe) -> None:
    """Two images with objects and one without; nothing at all; gradients; the criterion over two layers."""
    logits = probe.tensor("logits", N, QUERIES, CLASSES + 1)
    predicted, true = _boxes(probe, "boxes", 5), _boxes(probe, "true boxes", 5)
    labels = [torch.tensor([2, 0, 1]), torch.zeros(0, dtype=torch.int64), torch.tensor([0, 2])]
    matches = [
        (torch.tensor([1, 4, 6]), torch.tensor([2, 0, 1])),
        _no_match(),
        (torch.tensor([0, 3]), torch.tensor([1, 0])),
    ]
    with probe.part("values: class_loss"):
        probe.record("loss", matching.class_loss(logits, matches, labels))
        probe.record("loss with another weight", matching.class_loss(logits, matches, labels, no_object_weight=0.7))
    with probe.part("values: box_loss"):
        _record_both(probe, matching.box_loss(predicted, true, 4.0))
    with probe.part("values: nothing to find"):
        nothing = torch.zeros(0, dtype=torch.int64)
        probe.record("class loss", matching.class_loss(logits, [_no_match()] * N, [nothing] * N))
        _record_both(probe, matching.box_loss(predicted[:0], true[:0], 1.0))
    with probe.part("gradients"):
        probe.gradients(matching.class_loss(logits, matches, labels), logits=logits)
        probe.gradients(torch.stack(matching.box_loss(predicted, true, 4.0)), boxes=predicted)
    with probe.part("invariant: the whole set loss"):
        outputs = {"pred_logits": logits, "pred_boxes": _boxes(probe, "all boxes", N, QUERIES)}
        earlier = {"pred_logits": -logits, "pred_boxes": _boxes(probe, "earlier boxes", N, QUERIES)}
        wanted = [target.detach() for target in true.split([3, 0, 2])]
        targets = [{"labels": classes, "boxes": found} for classes, found in zip(labels, wanted, strict=True)]
        losses = matching.SetCriterion(CLASSES)({**outputs, "aux_outputs": [earlier]}, targets)
        probe.record("loss", losses["loss"])


@check("8.5")
def _sampling_locations(probe: Probe) -> None:
    """Around points and around boxes, on levels of unequal sides."""
    offsets = probe.tensor("offsets", N, T, H, LEVELS, POINTS, 2)
    points, frames = probe.tensor("points", N, T, LEVELS, 2), _boxes(probe, "frames", N, T, LEVELS)
    with probe.part("values: around points"):
        probe.record("places", deformable.sampling_locations(points, offsets, SIZES))
    with probe.part("values: around boxes"):
        probe.record("places", deformable.sampling_locations(frames, offsets, SIZES))
    with probe.part("gradients"):
        around = deformable.sampling_locations(points, offsets, SIZES)
        probe.gradients(around, points=points, offsets=offsets)
        probe.gradients(deformable.sampling_locations(frames, offsets, SIZES), frames=frames)


def _corners(probe: Probe, name: str, count: int) -> Tensor:
    """Boxes as pairs of corners, some of them across each other."""
    drawn = probe.random(name).standard_normal((2, count, 2))
    low, high = drawn.min(axis=0), drawn.max(axis=0) + 0.2
    return torch.cat((torch.from_numpy(low), torch.from_numpy(high)), dim=1).requires_grad_()


def _boxes(probe: Probe, name: str, *shape: int) -> Tensor:
    """Boxes as centre and size, fractions of an image."""
    return torch.from_numpy(probe.random(name).random_sample((*shape, 4)) * 0.8 + 0.1).requires_grad_()


def _no_match() -> tuple[Tensor, Tensor]:
    return torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)


def _record_both(probe: Probe, losses: tuple[Tensor, Tensor]) -> None:
    probe.record("distance", losses[0])
    probe.record("overlap", losses[1])
