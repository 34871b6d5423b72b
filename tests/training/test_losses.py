"""Losses of the tasks against torch's own and against hand-made batches."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from cs_transformers.training.losses import captioning_loss, classification_loss

NULL = 0


class Table(nn.Module):
    """A captioner whose scores are a parameter, so that its gradient is known."""

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, features: torch.Tensor, captions: torch.Tensor) -> torch.Tensor:
        assert len(features) == len(captions)
        return self.scores[:, : captions.shape[1]]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_classification_equals_torch(smoothing: float) -> None:
    torch.manual_seed(0)
    scores, labels = torch.randn(7, 5, dtype=torch.float64), torch.randint(5, (7,))
    loss, metrics = classification_loss(smoothing)(nn.Identity(), (scores, labels))
    oracle = nn.CrossEntropyLoss(label_smoothing=smoothing)(scores, labels)
    torch.testing.assert_close(loss, oracle, rtol=1e-12, atol=0)
    assert metrics["accuracy"].item() == pytest.approx((scores.argmax(1) == labels).double().mean().item())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_captioning_is_the_mean_over_real_words(smoothing: float) -> None:
    torch.manual_seed(0)
    captions = torch.tensor([[1, 4, 3, 2, 0, 0], [1, 3, 5, 4, 3, 2]])
    model = Table(torch.randn(2, 5, 6, dtype=torch.float64))
    loss, metrics = captioning_loss(NULL, smoothing)(model, (torch.zeros(2, 3), captions))
    oracle = nn.CrossEntropyLoss(ignore_index=NULL, label_smoothing=smoothing)
    expected = oracle(model.scores.flatten(0, 1), captions[:, 1:].flatten())
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    right = model.scores.argmax(-1)[captions[:, 1:] != NULL] == captions[:, 1:][captions[:, 1:] != NULL]
    assert metrics["token_accuracy"].item() == pytest.approx(right.double().mean().item())


def test_a_perfect_captioner_has_no_loss_and_full_accuracy() -> None:
    captions = torch.tensor([[1, 4, 2, 0]])
    model = Table(60.0 * nn.functional.one_hot(captions[:, 1:], 6).double())
    loss, metrics = captioning_loss(NULL)(model, (torch.zeros(1, 3), captions))
    assert loss.item() < 1e-9
    assert metrics["token_accuracy"].item() == 1


def test_a_batch_of_padding_alone_costs_nothing_and_moves_nothing() -> None:
    model = Table(torch.randn(2, 3, 6))
    loss, metrics = captioning_loss(NULL)(model, (torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int64)))
    loss.backward()
    assert loss.item() == 0
    assert metrics["token_accuracy"].item() == 0
    assert torch.equal(model.scores.grad, torch.zeros(2, 3, 6))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.inf])
def test_a_smoothing_outside_its_range_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=r"label_smoothing must be a share in \[0, 1\)"):
        classification_loss(smoothing)
    with pytest.raises(ValueError, match=r"label_smoothing must be a share in \[0, 1\)"):
        captioning_loss(NULL, smoothing)
