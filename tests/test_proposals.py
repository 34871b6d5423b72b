"""Proposals of an encoder: anchors, waves of boxes, which cells propose, and what passes gradients to what."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cs_transformers.proposals import EncoderProposals, anchor_boxes, box_waves

N, D, Q = 2, 8, 3
SIZES = [(3, 4), (2, 2)]
S = 16


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def centres() -> Tensor:
    places = [((x + 0.5) / w, (y + 0.5) / h) for h, w in SIZES for y in range(h) for x in range(w)]
    return torch.tensor(places, dtype=torch.float64).expand(N, S, 2)


def seeded(queries: int = Q) -> EncoderProposals:
    model = EncoderProposals(D, queries).double().eval()
    for index, parameter in enumerate(model.parameters()):
        parameter.data.copy_(noise(*parameter.shape, seed=index) - 0.5)
    return model


def test_anchors_lie_in_the_middle_of_cells_and_double_with_each_map() -> None:
    boxes = anchor_boxes(centres(), SIZES)
    assert boxes[1, 4 + 2].tolist() == pytest.approx([2.5 / 4, 1.5 / 3, 0.05, 0.05])
    assert boxes[1, 12 + 3].tolist() == pytest.approx([0.75, 0.75, 0.1, 0.1])


def test_waves_of_a_box_equal_the_formula_number_by_number() -> None:
    boxes = noise(N, Q, 4)
    found = box_waves(boxes, D)
    for number in range(4):
        for pair in range(D // 4):
            angle = 2 * math.pi * boxes[..., number] / 10000 ** (4 * pair / D)
            start = number * D // 2 + 2 * pair
            torch.testing.assert_close(found[..., start], angle.sin(), rtol=0, atol=1e-12)
            torch.testing.assert_close(found[..., start + 1], angle.cos(), rtol=0, atol=1e-12)


def test_the_surest_cells_become_queries_surest_first() -> None:
    queries, proposed = seeded()(noise(N, S, D), centres(), SIZES, None)
    assert proposed["pred_logits"].shape == (N, S, 1)
    for image in range(N):
        best = sorted(range(S), key=lambda cell: -proposed["pred_logits"][image, cell].item())[:Q]
        assert torch.equal(queries.reference[image], proposed["pred_boxes"][image, best])
    assert queries.state.shape == queries.pos.shape == (N, Q, D)


def test_a_fresh_module_proposes_its_anchors_and_finds_objects_unlikely() -> None:
    torch.manual_seed(0)
    _, proposed = EncoderProposals(D, Q).double()(noise(N, S, D), centres(), SIZES, None)
    torch.testing.assert_close(proposed["pred_boxes"], anchor_boxes(centres(), SIZES), rtol=0, atol=1e-12)
    assert EncoderProposals(D, Q).class_embed.bias.item() == pytest.approx(-math.log(99))


def test_padding_and_anchors_at_the_border_propose_nothing_and_learn_nothing() -> None:
    model, memory, places = seeded(), noise(N, S, D).requires_grad_(), centres().clone()
    real = torch.ones(N, S, dtype=torch.bool)
    real[0, 8:12] = False
    places[1, 3, 0] = 0.995  # nearer to the border than 1 %
    queries, proposed = model(memory, places, SIZES, real)
    silent = ~real
    silent[1, 3] = True
    assert torch.equal(proposed["pred_logits"].squeeze(-1) < -50, silent)
    assert torch.equal((proposed["pred_boxes"] == 1).all(dim=-1), silent)
    total = sum(value.square().sum() for value in (*proposed.values(), queries.state))
    (gradient,) = torch.autograd.grad(total, memory)
    assert torch.equal(gradient.abs().amax(dim=-1) == 0, silent)
    assert all(value.isfinite().all() for value in (*queries, *proposed.values(), gradient))


def test_queries_pass_no_gradient_to_the_boxes_they_came_from() -> None:
    model = seeded()
    queries, proposed = model(noise(N, S, D), centres(), SIZES, None)
    assert not queries.reference.requires_grad
    (queries.state.sum() + queries.pos.square().sum()).backward()
    assert model.to_query.weight.grad.abs().max() > 0
    assert model.project.weight.grad is None
    assert model.bbox_embed.layers[0].weight.grad is None
    proposed["pred_boxes"].sum().backward()
    assert model.bbox_embed.layers[0].weight.grad.abs().max() > 0


def test_more_queries_than_cells_are_refused() -> None:
    assert seeded(S)(noise(N, S, D), centres(), SIZES, None)[0].reference.shape == (N, S, 4)
    with pytest.raises(ValueError, match=r"num_queries must be at most S = 16 with these images, got 17; use larger"):
        seeded(S + 1)(noise(N, S, D), centres(), SIZES, None)
