"""The set loss of DETR: which prediction answers for which object, and what its answer costs.

Letters: N batch, Q object queries, K classes, M objects of an image. Boxes are (cx, cy, w, h) as fractions of the
image. With three classes, labels are 0, 1 and 2, and logits have four columns: index 3 says "no object".
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .boxes import check_fractions, cxcywh_to_xyxy, generalized_box_iou
from .errors import check_count, check_probability, check_shape, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

Match = tuple[Tensor, Tensor]  # queries and the objects they answer for, (m,) int64 each
Weights = tuple[float, float, float]  # of class, L1 and generalised IoU


def matching_cost(
    logits: Tensor,
    boxes: Tensor,
    labels: Tensor,
    true_boxes: Tensor,
    *,
    weights: Weights = (1.0, 5.0, 2.0),
    focal: bool = False,
) -> Tensor:
    """Say what it would cost to let each query answer for each object.

    class weight * (-p[label]) + L1 weight * |box - true box| + GIoU weight * (-GIoU): a query is cheap for an object
    if it says its class with confidence and its box lies near. The probability itself is taken, not its logarithm, so
    that it is about as large as the other two.

    Args:
        logits: (Q, K + 1) of all queries, the last column for "no object"; (Q, K) where ``focal``.
        boxes: (Q, 4) as (cx, cy, w, h).
        labels: (M,) classes of the objects.
        true_boxes: (M, 4) as (cx, cy, w, h).
        weights: Of class, L1 and GIoU.
        focal: Take the gain of the focal loss in place of the probability.

    Returns:
        (Q, M).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit.

    Example:
        >>> box = torch.tensor([[0.5, 0.5, 0.2, 0.2]])
        >>> matching_cost(torch.zeros(1, 2), box, torch.tensor([0]), box, weights=(1, 5, 2))
        tensor([[-2.5000]])

    Source:
        Carion et al. 2020, section 3.1, arXiv:2005.12872.
    """
    who = "matching_cost"
    check_tensor(who, "logits", logits)
    check_shape(who, "logits", logits, Q=None, K=None)
    check_tensor(who, "boxes", boxes)
    check_shape(who, "boxes", boxes, "one box per query", Q=len(logits), four=4)
    check_tensor(who, "labels", labels, floating=False)
    check_shape(who, "labels", labels, "one class per object", M=None)
    check_tensor(who, "true_boxes", true_boxes)
    check_shape(who, "true_boxes", true_boxes, "one box per object", M=len(labels), four=4)
    weight_class, weight_l1, weight_giou = weights
    # Exercise 8.3: the three terms of the docstring, every query against every object (about 4 lines; softmax, an index
    # by `labels`, torch.cdist with p=1, generalized_box_iou of the corners). With `focal`, `_focal_gain(logits)` (Q, K)
    # takes the place of the probabilities.
    ### BEGIN SOLUTION 8.3
    likely = _focal_gain(logits) if focal else logits.softmax(dim=-1)  # (Q, K + 1)
    distance = torch.cdist(boxes, true_boxes, p=1)  # (Q, M)
    overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes))  # (Q, M)
    return weight_l1 * distance - weight_class * likely[:, labels] - weight_giou * overlap
    ### END SOLUTION 8.3


def _focal_gain(logits: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """How much smaller the focal loss is if the answer is "yes" than if it is "no"."""
    likely = logits.sigmoid()
    yes = alpha * (1 - likely) ** gamma * -(likely + 1e-8).log()
    no = (1 - alpha) * likely**gamma * -(1 - likely + 1e-8).log()
    return no - yes


class HungarianMatcher(nn.Module):
    """Find the one-to-one assignment of queries to objects that costs least in total, image by image.

    Queries that are left over answer for nothing. An image with more objects than queries warns, and its surplus
    objects have no part in the loss.

    Args:
        class_weight: Weight of the class in the cost.
        l1_weight: Weight of the L1 distance.
        giou_weight: Weight of the generalised IoU.
        focal: Whether the classes are judged one by one, as in Deformable DETR, without a column for "no object".

    Raises:
        ValueError: If all weights are 0 or one is negative.

    Example:
        >>> boxes = torch.tensor([[[0.2, 0.2, 0.1, 0.1], [0.7, 0.7, 0.1, 0.1]]])
        >>> outputs = {"pred_logits": torch.zeros(1, 2, 4), "pred_boxes": boxes}
        >>> targets = [{"labels": torch.tensor([1]), "boxes": torch.tensor([[0.7, 0.6, 0.1, 0.1]])}]
        >>> HungarianMatcher()(outputs, targets)
        [(tensor([1]), tensor([0]))]

    Source:
        Carion et al. 2020, section 3.1, arXiv:2005.12872; Kuhn 1955, "The Hungarian method".
    """

    def __init__(
        self, class_weight: float = 1.0, l1_weight: float = 5.0, giou_weight: float = 2.0, *, focal: bool = False
    ) -> None:
        super().__init__()
        self.weights, self.focal = (class_weight, l1_weight, giou_weight), focal
        if min(self.weights) < 0 or max(self.weights) == 0:
            fix = "DETR uses 1, 5 and 2"
            raise ValueError(explain("HungarianMatcher", "the weights", "0 or more, not all 0", self.weights, fix))

    @torch.no_grad()
    def forward(self, outputs: Mapping[str, Tensor], targets: Sequence[Mapping[str, Tensor]]) -> list[Match]:
        """Assign queries to objects.

        Args:
            outputs: "pred_logits" (N, Q, K + 1), or (N, Q, K) where ``focal``, and "pred_boxes" (N, Q, 4).
            targets: For each of N images "labels" (M,) from 0 to K - 1 and "boxes" (M, 4) as (cx, cy, w, h).

        Returns:
            For each image the queries in ascending order and the objects they answer for, int64 on the CPU.

        Raises:
            TypeError: If an entry is of the wrong type.
            ValueError: If a shape, a label or a box is not as it must be, or a number is not finite.
        """
        from scipy.optimize import linear_sum_assignment

        logits, boxes = _precise(outputs["pred_logits"]), _precise(outputs["pred_boxes"])
        check_targets("HungarianMatcher", targets, logits, focal=self.focal)
        _check_finite("pred_logits", logits)
        _check_finite("pred_boxes", boxes)
        labels, true_boxes = _joined(targets, boxes)
        options = {"weights": self.weights, "focal": self.focal}
        cost = matching_cost(logits.flatten(0, 1), boxes.flatten(0, 1), labels, true_boxes, **options)
        counts = [len(target["labels"]) for target in targets]
        blocks = cost.unflatten(0, logits.shape[:2]).float().cpu().split(counts, dim=-1)  # (N, Q, M) for each image
        _warn_of_surplus(counts, logits.shape[1])
        found = [linear_sum_assignment(block[image].numpy()) for image, block in enumerate(blocks)]
        return [(torch.as_tensor(query), torch.as_tensor(entry)) for query, entry in found]


def class_loss(
    logits: Tensor, matches: Sequence[Match], labels: Sequence[Tensor], *, no_object_weight: float = 0.1
) -> Tensor:
    """Ask each query for the class of its object, and the queries without one for "no object".

    Cross-entropy as a weighted mean, sum(w * nll) / sum(w): most queries have no object, and at full weight they would
    drown the others.

    Args:
        logits: (N, Q, K + 1), the last column for "no object".
        matches: For each image the queries and the objects they answer for, as ``HungarianMatcher`` gives them.
        labels: For each image (M,) the classes of its objects.
        no_object_weight: Weight of "no object"; the classes have 1.

    Returns:
        The loss (0-d); 0 where nothing has a weight, without objects and with ``no_object_weight`` 0.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit.

    Example:
        >>> matches = [(torch.tensor([1]), torch.tensor([0]))]
        >>> class_loss(torch.zeros(1, 2, 4), matches, [torch.tensor([2])]).exp()
        tensor(4.)

    Source:
        Carion et al. 2020, section 3.1 and appendix A.4, arXiv:2005.12872.
    """
    check_tensor("class_loss", "logits", logits)
    check_shape("class_loss", "logits", logits, N=None, Q=None, K=None)
    check_probability("class_loss", "no_object_weight", no_object_weight)
    _check_per_image("class_loss", len(logits), matches=matches, labels=labels)
    if no_object_weight == 0 and not any(len(query) for query, _ in matches):
        return 0 * logits.sum()  # no query counts: the weighted mean would be 0 / 0
    # Exercise 8.4, first half: the class that each query is asked for, (N, Q) and "no object" to begin with; then the
    # class weights and the cross-entropy (about 7 lines; torch.full, a loop over the images, F.cross_entropy with
    # weight=, which divides by the sum of the weights). F.cross_entropy wants the classes on axis 1.
    ### BEGIN SOLUTION 8.4 class_loss
    no_object = logits.shape[-1] - 1
    wanted = torch.full(logits.shape[:2], no_object, dtype=torch.int64, device=logits.device)  # (N, Q)
    for row, (query, entry), classes in zip(wanted, matches, labels, strict=True):
        row[query] = classes[entry].to(row.device)
    weight = logits.new_ones(no_object + 1)
    weight[no_object] = no_object_weight
    return F.cross_entropy(logits.transpose(1, 2), wanted, weight)
    ### END SOLUTION 8.4 class_loss


def box_loss(boxes: Tensor, true_boxes: Tensor, num_boxes: float) -> tuple[Tensor, Tensor]:
    """Measure how far matched boxes are from their objects, in two ways.

    L1 is simple but counts a miss by 0.1 alike for large and small boxes; 1 - GIoU depends on the size.

    Args:
        boxes: (m, 4) predictions as (cx, cy, w, h), in the order of their objects.
        true_boxes: (m, 4) the objects, in the same form.
        num_boxes: What to divide by: the number of objects in the whole batch, at least 1.

    Returns:
        The sum of |box - true box| over all entries, and the sum of 1 - GIoU over all pairs, each divided by
        ``num_boxes`` (0-d).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit, or ``num_boxes`` is not positive.

    Example:
        >>> l1, giou = box_loss(torch.tensor([[0.5, 0.5, 0.2, 0.2]]), torch.tensor([[0.5, 0.5, 0.2, 0.4]]), 1)
        >>> round(l1.item(), 3), round(giou.item(), 3)
        (0.2, 0.5)

    Source:
        Carion et al. 2020, section 3.1 and appendix A.2, arXiv:2005.12872.
    """
    check_tensor("box_loss", "boxes", boxes)
    check_shape("box_loss", "boxes", boxes, "pick the matched boxes first", m=None, four=4)
    check_tensor("box_loss", "true_boxes", true_boxes)
    check_shape("box_loss", "true_boxes", true_boxes, "one object per box", m=len(boxes), four=4)
    if not num_boxes > 0:
        raise ValueError(explain("box_loss", "num_boxes", "positive", num_boxes, "clamp it: max(number, 1)"))
    # Exercise 8.4, second half: both sums, each divided by num_boxes (about 3 lines; abs, generalized_box_iou of the
    # corners with paired=True).
    ### BEGIN SOLUTION 8.4 box_loss
    distance = (boxes - true_boxes).abs().sum()
    overlap = generalized_box_iou(cxcywh_to_xyxy(boxes), cxcywh_to_xyxy(true_boxes), paired=True)  # (m,)
    return distance / num_boxes, (1 - overlap).sum() / num_boxes
    ### END SOLUTION 8.4 box_loss


def focal_loss(
    logits: Tensor,
    matches: Sequence[Match],
    labels: Sequence[Tensor],
    num_boxes: float,
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
) -> Tensor:
    """Ask each query, class by class, whether it sees one; sure and right answers hardly count.

    -a (1 - p)^gamma log p with p the probability of the right answer and a = alpha for "yes", 1 - alpha for "no".

    Args:
        logits: (N, Q, K), no column for "no object".
        matches: For each image the queries and the objects they answer for.
        labels: For each image (M,) the classes of its objects.
        num_boxes: What to divide the sum by.
        alpha: Weight of "yes".
        gamma: How little sure answers count; 0 is cross-entropy.

    Returns:
        The loss (0-d).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit.

    Example:
        >>> matches = [(torch.tensor([1]), torch.tensor([0]))]
        >>> focal_loss(torch.zeros(1, 2, 3), matches, [torch.tensor([2])], 1.0, alpha=0.5, gamma=0.0)
        tensor(2.0794)

    Source:
        Lin et al. 2017, equation 5, arXiv:1708.02002.
    """
    check_tensor("focal_loss", "logits", logits)
    check_shape("focal_loss", "logits", logits, N=None, Q=None, K=None)
    _check_per_image("focal_loss", len(logits), matches=matches, labels=labels)
    wanted = torch.zeros_like(logits)
    for rows, (query, entry), classes in zip(wanted, matches, labels, strict=True):
        rows[query, classes[entry.to(classes.device)].to(rows.device)] = 1
    surprise = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")  # (N, Q, K)
    likely = logits.sigmoid()
    right = likely * wanted + (1 - likely) * (1 - wanted)
    share = alpha * wanted + (1 - alpha) * (1 - wanted)
    return (share * (1 - right) ** gamma * surprise).sum() / num_boxes


class SetCriterion(nn.Module):
    """Judge a whole set of predictions: match it to the objects, then add up what class and box cost.

    Each decoder layer is matched and judged by itself; their losses are added. An image without objects costs its
    queries' "no object" alone, and a batch without any has a box loss of exactly 0.

    Args:
        num_classes: Number of classes K; labels run from 0 to K - 1, and K is the index of "no object".
        matcher: Finds the assignment; None takes a ``HungarianMatcher`` with the weights of the loss.
        weights: Of the loss of class, L1 and GIoU; None takes (1, 5, 2), and (2, 5, 2) where ``focal``.
        no_object_weight: Weight of "no object" in the cross-entropy.
        focal: Judge the classes one by one by the focal loss, as in Deformable DETR.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range.

    Example:
        >>> outputs = {"pred_logits": torch.zeros(1, 2, 4), "pred_boxes": torch.full((1, 2, 4), 0.5)}
        >>> nothing = {"labels": torch.zeros(0, dtype=torch.int64), "boxes": torch.zeros(0, 4)}
        >>> losses = SetCriterion(num_classes=3)(outputs, [nothing])
        >>> round(losses["loss_ce"].item(), 3), losses["loss_bbox"].item(), losses["loss_giou"].item()
        (1.386, 0.0, 0.0)

    Source:
        Carion et al. 2020, sections 3.1 and 3.2, arXiv:2005.12872; Zhu et al. 2020, arXiv:2010.04159.
    """

    def __init__(
        self,
        num_classes: int,
        matcher: nn.Module | None = None,
        *,
        weights: Weights | None = None,
        no_object_weight: float = 0.1,
        focal: bool = False,
    ) -> None:
        super().__init__()
        check_count("SetCriterion", "num_classes", num_classes)
        check_probability("SetCriterion", "no_object_weight", no_object_weight)
        self.num_classes, self.no_object_weight, self.focal = num_classes, no_object_weight, focal
        self.weights = tuple(weights or ((2.0, 5.0, 2.0) if focal else (1.0, 5.0, 2.0)))
        self.matcher = matcher or HungarianMatcher(*self.weights, focal=focal)

    def forward(self, outputs: Mapping[str, Tensor], targets: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Judge what a detector says of a batch.

        Args:
            outputs: What the model returned; "aux_outputs", where it is there, holds the earlier layers, and
                "enc_outputs" what the encoder proposed: there all classes are one, "an object".
            targets: For each of N images "labels" (M,) from 0 to K - 1 and "boxes" (M, 4) as (cx, cy, w, h).

        Returns:
            "loss", the weighted sum over all layers; of the last layer "loss_ce", "loss_bbox", "loss_giou" and, without
            gradients, "class_error" (% of the matched queries) and "cardinality_error" (objects); of layer i before it
            "loss_ce_i" and so on, and of the encoder's proposals "loss_ce_enc" and so on.

        Raises:
            TypeError: If an entry is of the wrong type.
            ValueError: If a shape, a label or a box is not as it must be, or a number is not finite.
        """
        check_targets("SetCriterion", targets, outputs["pred_logits"], classes=self.num_classes, focal=self.focal)
        num_boxes = number_of_boxes(targets, outputs["pred_logits"].device)
        layers = {"": outputs, **{f"_{i}": layer for i, layer in enumerate(outputs.get("aux_outputs", ()))}}
        if "enc_outputs" in outputs:
            layers["_enc"] = outputs["enc_outputs"]
        objects = [{**target, "labels": torch.zeros_like(target["labels"])} for target in targets]
        losses: dict[str, Tensor] = {}
        for suffix, layer in layers.items():
            wanted = objects if suffix == "_enc" else targets
            matches = self.matcher(layer, wanted)
            losses |= {f"{name}{suffix}": value for name, value in self._judge(layer, wanted, matches, num_boxes)}
            if not suffix:
                losses |= self._watched(layer, targets, matches)
        terms = zip(("loss_ce", "loss_bbox", "loss_giou"), self.weights, strict=True)
        total = [weight * losses[name + suffix] for name, weight in terms for suffix in layers]
        return {"loss": torch.stack(total).sum(), **losses}

    def _judge(
        self, layer: Mapping[str, Tensor], targets: Sequence[Mapping[str, Tensor]], matches: list[Match], num: float
    ) -> list[tuple[str, Tensor]]:
        logits, boxes = _precise(layer["pred_logits"]), _precise(layer["pred_boxes"])
        labels = [target["labels"] for target in targets]
        if self.focal:
            of_class = focal_loss(logits, matches, labels, num)
        else:
            of_class = class_loss(logits, matches, labels, no_object_weight=self.no_object_weight)
        found = torch.cat([rows[query] for rows, (query, _) in zip(boxes, matches, strict=True)])  # (m, 4)
        wanted = [target["boxes"][entry] for target, (_, entry) in zip(targets, matches, strict=True)]
        distance, apart = box_loss(found, torch.cat(wanted).to(found), num)
        return [("loss_ce", of_class), ("loss_bbox", distance), ("loss_giou", apart)]

    @torch.no_grad()
    def _watched(
        self, layer: Mapping[str, Tensor], targets: Sequence[Mapping[str, Tensor]], matches: list[Match]
    ) -> dict[str, Tensor]:
        logits = _precise(layer["pred_logits"])
        named = logits[..., : self.num_classes].argmax(dim=-1) if self.focal else logits.argmax(dim=-1)  # (N, Q)
        pairs = zip(named, targets, matches, strict=True)
        wrong = [row[query] != target["labels"][entry].to(row.device) for row, target, (query, entry) in pairs]
        wrong = torch.cat(wrong).to(logits.dtype)
        seen = (logits.sigmoid() > 0.5).any(dim=-1) if self.focal else named != self.num_classes  # (N, Q)
        counts = torch.tensor([len(target["labels"]) for target in targets], device=logits.device)
        off = (seen.sum(dim=1) - counts).abs().to(logits.dtype).mean()
        return {"class_error": 100 * wrong.sum() / max(len(wrong), 1), "cardinality_error": off}


def number_of_boxes(targets: Sequence[Mapping[str, Tensor]], device: torch.device | str = "cpu") -> float:
    """Count the objects of a batch, over all processes where there are several.

    Args:
        targets: For each image "labels" (M,).
        device: Where the processes exchange their counts.

    Returns:
        The mean number per process, at least 1: gradients are averaged over the processes later.

    Example:
        >>> number_of_boxes([{"labels": torch.tensor([2, 0])}, {"labels": torch.tensor([1])}])
        3.0
    """
    count = torch.tensor(float(sum(len(target["labels"]) for target in targets)), device=device)
    world = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(count)
        world = torch.distributed.get_world_size()
    return max(count.item() / world, 1.0)


def check_targets(
    who: str,
    targets: Sequence[Mapping[str, Tensor]],
    logits: Tensor,
    *,
    classes: int | None = None,
    focal: bool = False,
) -> None:
    """Require one target per image, with labels of the range and boxes as fractions.

    Args:
        who: The class or function the caller used.
        targets: What the caller gave.
        logits: (N, Q, K + 1), or (N, Q, K) where ``focal``.
        classes: Number of classes K; None takes it from the logits.
        focal: Whether the logits have no column for "no object".

    Raises:
        TypeError: If an entry is of the wrong type.
        ValueError: If a shape, a label or a box is not as it must be.
    """
    check_tensor(who, "pred_logits", logits)
    check_shape(who, "pred_logits", logits, N=None, Q=None, K=None)
    columns = logits.shape[-1]
    classes = columns - (not focal) if classes is None else classes
    if columns != classes + (not focal):
        expected = f"of {classes} columns" if focal else f"of {classes} + 1 columns, the last for no object"
        raise ValueError(explain(who, "pred_logits", expected, columns, "give model and criterion one num_classes"))
    _check_per_image(who, len(logits), targets=targets)
    for image, target in enumerate(targets):
        labels, boxes = target["labels"], target["boxes"]
        check_tensor(who, f"labels of image {image}", labels, floating=False)
        check_shape(who, f"labels of image {image}", labels, "one class per object", M=None)
        if labels.dtype != torch.int64:
            fix = "use labels.long(), also where there are no objects: torch.tensor([]) is float"
            raise TypeError(explain(who, f"labels of image {image}", "of dtype int64", labels.dtype, fix))
        check_fractions(who, f"boxes of image {image}", boxes)
        check_shape(who, f"boxes of image {image}", boxes, "one box per label", M=len(labels), four=4)
        outside = (labels < 0) | (labels >= classes)
        if bool(outside.any()):
            expected = f"from 0 to {classes - 1} ({classes} classes; {classes} itself means no object)"
            fix = "number the classes from 0, without the background"
            raise ValueError(explain(who, f"labels of image {image}", expected, labels[outside][0].item(), fix))


def _precise(predicted: Tensor) -> Tensor:
    """Half precision is too coarse for sums over a batch, and torch has no distances in it."""
    return predicted.float() if predicted.dtype in (torch.float16, torch.bfloat16) else predicted


def _check_per_image(who: str, images: int, **lists: Sequence[object]) -> None:
    for name, entries in lists.items():
        if len(entries) != images:
            raise ValueError(explain(who, name, f"a list of {images}, one per image", len(entries), "check the batch"))


def _check_finite(name: str, predicted: Tensor) -> None:
    wrong = ~predicted.isfinite()
    if bool(wrong.any()):
        image, query = wrong.nonzero()[0][:2].tolist()
        got = f"{predicted[image, query].tolist()} at image {image}, query {query}"
        fix = "the model gives it, not the data: lower the learning rate, clip the gradients, look for a NaN weight"
        raise ValueError(explain("HungarianMatcher", name, "finite", got, fix))


def _joined(targets: Sequence[Mapping[str, Tensor]], like: Tensor) -> Match:
    labels = torch.cat([target["labels"] for target in targets]).to(like.device)
    return labels, torch.cat([target["boxes"] for target in targets]).to(like)


def _warn_of_surplus(counts: Sequence[int], queries: int) -> None:
    surplus = [(image, count) for image, count in enumerate(counts) if count > queries]
    if surplus:
        image, count = surplus[0]
        warnings.warn(
            f"HungarianMatcher: image {image} has {count} objects for {queries} queries; {count - queries} of them "
            "have no part in the loss. Give the model more queries.",
            stacklevel=3,
        )
