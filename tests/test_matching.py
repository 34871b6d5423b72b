"""The set loss against transformers' DETR and loops, and targets that are odd: none, too many, out of range."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from cs_transformers import matching
from cs_transformers.boxes import cxcywh_to_xyxy
from cs_transformers.matching import HungarianMatcher, SetCriterion, box_loss, class_loss, focal_loss, matching_cost

N, Q, K = 3, 6, 4
COUNTS = (2, 0, 5)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def outputs(columns: int = K + 1, layers: int = 1, seed: int = 0) -> dict:
    made = [
        {"pred_logits": noise(N, Q, columns, seed=seed + layer).requires_grad_(),
         "pred_boxes": noise(N, Q, 4, seed=seed + 10 + layer).sigmoid().requires_grad_()}
        for layer in range(layers)
    ]  # fmt: skip
    return {**made[-1], "aux_outputs": made[:-1]}


def targets(counts: tuple[int, ...] = COUNTS) -> list[dict]:
    labels = [torch.arange(count) * 3 % K for count in counts]
    return [
        {"labels": classes, "boxes": 0.1 + 0.8 * noise(len(classes), 4, seed=20 + image).sigmoid()}
        for image, classes in enumerate(labels)
    ]


def theirs(given: dict) -> dict:
    renamed = {"logits": given["pred_logits"], "pred_boxes": given["pred_boxes"]}
    aux = [{"logits": one["pred_logits"], "pred_boxes": one["pred_boxes"]} for one in given.get("aux_outputs", [])]
    return {**renamed, **({"auxiliary_outputs": aux} if aux else {})}


def renamed(wanted: list[dict]) -> list[dict]:
    return [{"class_labels": target["labels"], "boxes": target["boxes"]} for target in wanted]


# ---------------------------------------------------------------- cost and assignment


def test_the_cost_is_what_loops_give() -> None:
    logits, predicted, labels, true = (
        noise(Q, K + 1),
        noise(Q, 4, seed=1).sigmoid(),
        torch.tensor([2, 0]),
        noise(2, 4).sigmoid(),
    )
    found = matching_cost(logits, predicted, labels, true, weights=(1.5, 5.0, 2.5))
    from torchvision.ops import generalized_box_iou as giou

    for query, entry in itertools.product(range(Q), range(2)):
        exponents = [math.exp(value) for value in logits[query].tolist()]
        likely = exponents[labels[entry]] / sum(exponents)
        distance = sum(abs(a - b) for a, b in zip(predicted[query].tolist(), true[entry].tolist(), strict=True))
        overlap = giou(cxcywh_to_xyxy(predicted[query : query + 1]), cxcywh_to_xyxy(true[entry : entry + 1])).item()
        assert found[query, entry].item() == pytest.approx(-1.5 * likely + 5 * distance - 2.5 * overlap, abs=1e-9)


@pytest.mark.parametrize("focal", [False, True])
def test_assignments_equal_those_of_transformers(focal: bool) -> None:
    from transformers.loss.loss_deformable_detr import DeformableDetrHungarianMatcher
    from transformers.loss.loss_for_object_detection import HungarianMatcher as Theirs

    made = outputs(K if focal else K + 1)
    matcher = DeformableDetrHungarianMatcher if focal else Theirs
    expected = matcher(class_cost=2.0, bbox_cost=5.0, giou_cost=2.0)(theirs(made), renamed(targets()))
    found = HungarianMatcher(2.0, 5.0, 2.0, focal=focal)(made, targets())
    for (query, entry), (query2, entry2) in zip(found, expected, strict=True):
        assert (query.tolist(), entry.tolist()) == (query2.tolist(), entry2.tolist())


def test_no_other_assignment_is_cheaper() -> None:
    made, wanted = outputs(), targets()
    found = HungarianMatcher()(made, wanted)
    cost = matching_cost(made["pred_logits"][2], made["pred_boxes"][2], wanted[2]["labels"], wanted[2]["boxes"])
    total = cost[found[2][0], found[2][1]].sum()
    every = [cost[list(queries), range(5)].sum() for queries in itertools.permutations(range(Q), 5)]
    assert total.item() == pytest.approx(min(every).item(), abs=1e-9)


def test_matching_a_batch_is_matching_its_images() -> None:
    made, wanted = outputs(), targets()
    whole = HungarianMatcher()(made, wanted)
    for image in range(N):
        alone = {name: made[name][image : image + 1] for name in ("pred_logits", "pred_boxes")}
        (query, entry), (query2, entry2) = whole[image], HungarianMatcher()(alone, wanted[image : image + 1])[0]
        assert (query.tolist(), entry.tolist()) == (query2.tolist(), entry2.tolist())


def test_matching_has_no_gradient() -> None:
    cost_inputs = outputs()
    HungarianMatcher()(cost_inputs, targets())
    assert cost_inputs["pred_logits"].grad is None
    assert cost_inputs["pred_logits"].grad_fn is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["pred_logits", "pred_boxes"])
def test_a_prediction_that_is_not_finite_is_found(name: str, bad: float) -> None:
    made = {key: outputs()[key].detach().clone() for key in ("pred_logits", "pred_boxes")}
    made[name][2, 3, 1] = bad
    with pytest.raises(ValueError, match=f"{name} must be finite, got .* at image 2, query 3; the model gives it"):
        HungarianMatcher()(made, targets())


def test_a_target_that_is_not_finite_is_found() -> None:
    wanted = targets()
    wanted[2]["boxes"][4, 0] = float("nan")
    with pytest.raises(ValueError, match=r"boxes of image 2 must be finite numbers, got .* in row 4"):
        HungarianMatcher()(outputs(), wanted)


@pytest.mark.parametrize("label", [K, -1])
def test_a_label_outside_the_classes_is_refused_with_the_range(label: int) -> None:
    wanted = targets()
    wanted[0]["labels"] = torch.tensor([0, label])
    with pytest.raises(
        ValueError, match=rf"labels of image 0 must be from 0 to 3 \(4 classes; 4 itself means no object\), got {label}"
    ):
        SetCriterion(K)(outputs(), wanted)


def test_more_objects_than_queries_warn_and_the_loss_stays_finite() -> None:
    made = {name: value[:1, :2] for name, value in outputs().items() if name != "aux_outputs"}
    with pytest.warns(UserWarning, match="image 0 has 5 objects for 2 queries; 3 of them have no part"):
        losses = SetCriterion(K)(made, targets()[2:])
    assert losses["loss"].isfinite()


# ---------------------------------------------------------------- the losses


def test_the_class_loss_is_a_weighted_mean() -> None:
    logits, labels = noise(1, 3, K + 1), [torch.tensor([2])]
    found = class_loss(logits, [(torch.tensor([1]), torch.tensor([0]))], labels, no_object_weight=0.1)
    surprise = -logits[0].log_softmax(-1)
    expected = (surprise[1, 2] + 0.1 * (surprise[0, K] + surprise[2, K])) / 1.2
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_the_focal_loss_equals_torchvisions() -> None:
    from torchvision.ops import sigmoid_focal_loss

    logits, wanted = noise(2, 3, K), torch.zeros(2, 3, K, dtype=torch.float64)
    wanted[0, 1, 2] = wanted[1, 0, 3] = 1
    matches = [(torch.tensor([1]), torch.tensor([0])), (torch.tensor([0]), torch.tensor([1]))]
    found = focal_loss(logits, matches, [torch.tensor([2]), torch.tensor([0, 3])], 2.5)
    expected = sigmoid_focal_loss(logits, wanted, alpha=0.25, gamma=2, reduction="sum") / 2.5
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_box_losses_are_sums_over_the_number_of_objects() -> None:
    from torchvision.ops import generalized_box_iou_loss

    one, other = noise(5, 4).sigmoid(), noise(5, 4, seed=1).sigmoid()
    distance, apart = box_loss(one, other, 4.0)
    assert distance.item() == pytest.approx((one - other).abs().sum().item() / 4, abs=1e-12)
    expected = generalized_box_iou_loss(cxcywh_to_xyxy(one), cxcywh_to_xyxy(other), reduction="sum", eps=0.0) / 4
    torch.testing.assert_close(apart, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("focal", [False, True])
def test_losses_and_gradients_equal_those_of_transformers(focal: bool) -> None:
    """All layers, each with its own matching, and the weighted sum."""
    from transformers.loss import loss_deformable_detr as deformable
    from transformers.loss import loss_for_object_detection as plain

    made, weights = outputs(K if focal else K + 1, layers=3), (2.0, 5.0, 2.0) if focal else (1.0, 5.0, 2.0)
    names = ["labels", "boxes", "cardinality"]
    if focal:
        matcher = deformable.DeformableDetrHungarianMatcher(2.0, 5.0, 2.0)
        criterion = deformable.DeformableDetrImageLoss(matcher, K, 0.25, names)
    else:
        criterion = plain.ImageLoss(plain.HungarianMatcher(1.0, 5.0, 2.0), K, 0.1, names).double()
    expected = criterion(theirs(made), renamed(targets()))
    found = SetCriterion(K, focal=focal)(made, targets())
    scale = dict(zip(("loss_ce", "loss_bbox", "loss_giou"), weights, strict=True))
    for name, value in expected.items():
        if name.startswith("loss"):
            torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9)
    assert found["cardinality_error"].item() == pytest.approx(expected["cardinality_error"].item(), rel=1e-6)
    total = sum(scale[name.rpartition("_")[0] if name[-1].isdigit() else name] * value
                for name, value in expected.items() if name.startswith("loss"))  # fmt: skip
    torch.testing.assert_close(found["loss"], total, rtol=1e-9, atol=1e-9)
    leaves = [layer[name] for layer in (made, *made["aux_outputs"]) for name in ("pred_logits", "pred_boxes")]
    for ours, other in zip(torch.autograd.grad(found["loss"], leaves), torch.autograd.grad(total, leaves), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-9, atol=1e-9)


def test_each_layer_is_matched_by_itself() -> None:
    made = outputs(layers=2)
    matcher = HungarianMatcher()
    first, last = matcher(made["aux_outputs"][0], targets()), matcher(made, targets())
    assert [query.tolist() for query, _ in first] != [query.tolist() for query, _ in last]
    alone = SetCriterion(K)(made["aux_outputs"][0], targets())
    both = SetCriterion(K)(made, targets())
    assert both["loss_bbox_0"].item() == pytest.approx(alone["loss_bbox"].item(), abs=1e-12)


def test_proposals_of_the_encoder_are_judged_as_if_all_classes_were_one() -> None:
    made, cells = outputs(K), 9
    proposed = {"pred_logits": noise(3, cells, 1, seed=5), "pred_boxes": noise(3, cells, 4, seed=6).sigmoid()}
    proposed = {name: value.requires_grad_() for name, value in proposed.items()}
    criterion = SetCriterion(K, focal=True)
    losses = criterion({**made, "enc_outputs": proposed}, targets())
    one_class = [{**target, "labels": torch.zeros_like(target["labels"])} for target in targets()]
    alone = SetCriterion(1, focal=True)(proposed, one_class)
    for name in ("loss_ce", "loss_bbox", "loss_giou"):
        assert losses[f"{name}_enc"].item() == pytest.approx(alone[name].item(), abs=1e-12)
    without = criterion(made, targets())
    assert losses["loss"].item() == pytest.approx(without["loss"].item() + alone["loss"].item(), abs=1e-9)
    other = [{**target, "labels": (target["labels"] + 1) % K} for target in targets()]
    others = criterion({**made, "enc_outputs": proposed}, other)
    assert others["loss_ce_enc"].item() == losses["loss_ce_enc"].item()
    assert others["loss_ce"].item() != losses["loss_ce"].item()
    gradients = torch.autograd.grad(losses["loss"], list(proposed.values()))
    assert all(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("focal", [False, True])
def test_a_batch_without_objects_has_a_class_loss_alone(focal: bool) -> None:
    made = outputs(K if focal else K + 1)
    losses = SetCriterion(K, focal=focal)(made, targets((0, 0, 0)))
    assert HungarianMatcher(focal=focal)(made, targets((0, 0, 0)))[1][0].shape == (0,)
    assert losses["loss_bbox"].item() == losses["loss_giou"].item() == losses["class_error"].item() == 0.0
    assert losses["loss_ce"].isfinite()
    logits, boxes = torch.autograd.grad(losses["loss"], [made["pred_logits"], made["pred_boxes"]])
    assert logits.abs().max() > 0
    assert torch.equal(boxes, torch.zeros_like(boxes))


@pytest.mark.parametrize("counts", [(0, 0, 0), (2, 0, 1)])
def test_no_object_may_weigh_nothing_with_and_without_objects(counts: tuple[int, ...]) -> None:
    made = outputs()
    losses = SetCriterion(K, no_object_weight=0)(made, targets(counts))
    gradients = torch.autograd.grad(losses["loss"], [made["pred_logits"], made["pred_boxes"]])
    assert all(value.isfinite().all() for value in (*losses.values(), *gradients))
    assert (losses["loss_ce"] == 0) == (sum(counts) == 0)
    assert bool((gradients[0] == 0).all()) == (sum(counts) == 0)


def test_one_query_for_one_object_in_one_image() -> None:
    made = {name: value[:1, :1] for name, value in outputs().items() if name != "aux_outputs"}
    losses = SetCriterion(K)(made, targets((1,)))
    assert losses["loss"].shape == ()
    assert losses["loss"].isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_judged_in_single(dtype: torch.dtype) -> None:
    made = {name: outputs()[name].detach().to(dtype) for name in ("pred_logits", "pred_boxes")}
    single = {name: value.float() for name, value in made.items()}
    wanted = [{**target, "boxes": target["boxes"].float()} for target in targets()]
    losses = SetCriterion(K)(made, wanted)
    assert losses["loss"].dtype == torch.float32
    torch.testing.assert_close(losses["loss"], SetCriterion(K)(single, wanted)["loss"])


def test_a_perfect_answer_costs_nothing_in_boxes_and_errs_in_nothing() -> None:
    wanted = targets((2, 0, 3))
    logits, boxes = (
        torch.full((N, Q, K + 1), -30.0, dtype=torch.float64),
        torch.full((N, Q, 4), 0.5, dtype=torch.float64),
    )
    logits[..., K] = 30.0
    for image, target in enumerate(wanted):
        for entry, label in enumerate(target["labels"].tolist()):
            logits[image, entry + 1, K], logits[image, entry + 1, label] = -30.0, 30.0
            boxes[image, entry + 1] = target["boxes"][entry]
    losses = SetCriterion(K)({"pred_logits": logits, "pred_boxes": boxes}, wanted)
    assert losses["loss"].item() < 1e-9
    assert losses["class_error"].item() == losses["cardinality_error"].item() == 0.0


def test_the_order_of_objects_and_of_queries_does_not_matter() -> None:
    made, wanted = outputs(), targets()
    expected = SetCriterion(K)(made, wanted)["loss"]
    order = torch.tensor([4, 1, 5, 0, 2, 3])
    shuffled = {name: made[name][:, order] for name in ("pred_logits", "pred_boxes")}
    backwards = [{name: value.flip(0) for name, value in target.items()} for target in wanted]
    torch.testing.assert_close(SetCriterion(K)(shuffled, wanted)["loss"], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(SetCriterion(K)(made, backwards)["loss"], expected, rtol=1e-12, atol=1e-12)


def test_the_number_of_boxes_is_the_mean_over_processes_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert matching.number_of_boxes(targets((0, 0, 0))) == 1.0
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda count: count.mul_(2))
    assert matching.number_of_boxes(targets((2, 0, 5))) == 3.5


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"boxes": torch.tensor([[20.0, 183.0, 49.0, 173.0], [0.1, 0.1, 0.2, 0.2]])}, ValueError, "normalised cxcywh"),
    ({"boxes": torch.zeros(3, 4)}, ValueError, r"boxes of image 0 must be of shape \(M, four\) = \(2, 4\)"),
    ({"labels": torch.zeros(2, 1)}, ValueError, r"labels of image 0 must be of shape \(M\)"),
    ({"labels": [0, 1]}, TypeError, "labels of image 0 must be a torch.Tensor"),
    ({"labels": torch.zeros(2)}, TypeError, r"labels of image 0 must be of dtype int64, got torch.float32"),
    ({"labels": torch.ones(2, dtype=torch.uint8)}, TypeError, "labels of image 0 must be of dtype int64"),
    ({"labels": torch.tensor([]), "boxes": torch.zeros(0, 4)}, TypeError, "also where there are no objects"),
    ({"boxes": torch.zeros(2, 4, dtype=torch.int64)}, TypeError, "boxes of image 0 must be a tensor of a float"),
])  # fmt: skip
def test_odd_targets_are_refused(change: dict, error: type, message: str) -> None:
    wanted = targets()
    wanted[0] |= change
    with pytest.raises(error, match=message):
        SetCriterion(K)(outputs(), wanted)


def test_a_list_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="targets must be a list of 3, one per image, got 2"):
        SetCriterion(K)(outputs(), targets()[:2])
    with pytest.raises(ValueError, match="matches must be a list of 3"):
        class_loss(noise(3, Q, K + 1), [], [torch.zeros(0)] * 3)
    with pytest.raises(ValueError, match="labels must be a list of 3"):
        focal_loss(noise(3, Q, K), [(torch.zeros(0), torch.zeros(0))] * 3, [], 1.0)


@pytest.mark.parametrize(("focal", "columns", "message"), [
    (False, K, r"of 4 \+ 1 columns, the last for no object, got 4"), (True, K + 1, "of 4 columns, got 5"),
])  # fmt: skip
def test_logits_for_other_classes_are_refused(focal: bool, columns: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SetCriterion(K, focal=focal)(outputs(columns), targets())


@pytest.mark.parametrize(("call", "message"), [
    (lambda: HungarianMatcher(0, 0, 0), "the weights must be 0 or more, not all 0"),
    (lambda: HungarianMatcher(-1), "the weights must be 0 or more"),
    (lambda: SetCriterion(0), "num_classes must be a positive whole number"),
    (lambda: SetCriterion(3, no_object_weight=2.0), "no_object_weight must be a probability"),
    (lambda: box_loss(torch.zeros(2, 4), torch.zeros(3, 4), 1.0), r"true_boxes must be of shape"),
    (lambda: box_loss(torch.zeros(2, 4), torch.zeros(2, 4), 0.0), "num_boxes must be positive"),
    (lambda: matching_cost(torch.zeros(2, 3), torch.zeros(3, 4), torch.zeros(1), torch.zeros(1, 4)), "boxes must"),
    (lambda: matching_cost(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2), torch.zeros(1, 4)), "true_boxes must"),
    (lambda: class_loss(torch.zeros(2, 3), [], []), r"logits must be of shape \(N, Q, K\)"),
    (lambda: focal_loss(torch.zeros(2, 3), [], [], 1.0), r"logits must be of shape \(N, Q, K\)"),
])  # fmt: skip
def test_wrong_calls_say_what_they_expect(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
