"""Stanford's solvers: names, attributes, printed lines, and the step of the original."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.training.solvers import CaptioningSolverTransformer, ClassificationSolverViT

WORDS = ["<NULL>", "<START>", "<END>", "<UNK>", *"abcde"]


def caption_data() -> dict:
    rng = np.random.RandomState(0)
    captions = rng.randint(4, len(WORDS), size=(12, 6)).astype(np.int32)
    captions[:, 0], captions[:, 4], captions[:, 5] = 1, 2, 0
    return {
        "train_captions": captions,
        "train_image_idxs": rng.randint(0, 7, size=12),
        "train_features": rng.randn(7, 10).astype(np.float32),
        "idx_to_word": WORDS,
        "word_to_idx": {word: index for index, word in enumerate(WORDS)},
    }


def small_captioner() -> CaptioningTransformer:
    torch.manual_seed(0)
    words = {word: index for index, word in enumerate(WORDS)}
    return CaptioningTransformer(words, input_dim=10, wordvec_dim=16, num_heads=2, num_layers=1, max_length=30)


def image_data(count: int = 20) -> TensorDataset:
    generator = torch.Generator().manual_seed(count)
    return TensorDataset(torch.randn(count, 6, generator=generator), torch.randint(3, (count,), generator=generator))


def test_the_captioning_solver_keeps_a_loss_per_step_and_prints_every_tenth(capsys: pytest.CaptureFixture) -> None:
    data = caption_data()
    solver = CaptioningSolverTransformer(
        small_captioner(), data, idx_to_word=WORDS, num_epochs=4, batch_size=5, learning_rate=0.01, print_every=3
    )
    solver.train()
    assert len(solver.loss_history) == 8  # 12 captions // 5 = 2 steps, 4 times
    assert all(isinstance(loss, np.ndarray) and loss.shape == () for loss in solver.loss_history)
    assert solver.loss_history[-1] < solver.loss_history[0]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(") loss: ")[0] for line in lines] == [f"(Iteration {step} / 8" for step in (1, 4, 7)]
    assert float(lines[0].split()[-1]) == pytest.approx(float(solver.loss_history[0]), abs=1e-6)


def test_the_first_loss_is_the_mean_over_all_positions_of_untrained_words() -> None:
    data = caption_data()
    solver = CaptioningSolverTransformer(small_captioner(), data, WORDS, batch_size=200, num_epochs=1, verbose=False)
    solver.train()
    # 4 of 5 targets are words; an untrained model gives each word a probability of about 1 / 9.
    assert float(solver.loss_history[0]) == pytest.approx(0.8 * np.log(9), rel=0.15)


def test_a_second_call_goes_on_quietly(capsys: pytest.CaptureFixture) -> None:
    solver = CaptioningSolverTransformer(small_captioner(), caption_data(), WORDS, num_epochs=1, verbose=False)
    solver.train()
    solver.train()
    assert len(solver.loss_history) == 2
    assert capsys.readouterr().out == ""


def test_the_classification_solver_reports_both_parts_of_every_epoch() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    solver = ClassificationSolverViT(
        train_data=image_data(), test_data=image_data(8), model=model, num_epochs=3, learning_rate=0.05, batch_size=7
    )
    solver.train(device="cpu")
    results = solver.results
    assert sorted(results) == ["best_test_acc", "test_acc@1", "test_loss", "train_acc@1", "train_loss"]
    assert [len(results[name]) for name in sorted(results)[1:]] == [3] * 4
    assert results["best_test_acc"] == max(results["test_acc@1"])
    images, labels = image_data(8)[:]
    assert results["test_acc@1"][-1] == pytest.approx((model(images).argmax(1) == labels).float().mean().item())
    assert results["train_loss"][-1] < results["train_loss"][0]


def test_one_step_is_adam_with_decay_in_the_gradient() -> None:
    torch.manual_seed(0)
    ours = nn.Linear(6, 3)
    theirs = nn.Linear(6, 3)
    theirs.load_state_dict(ours.state_dict())
    settings = {"learning_rate": 0.01, "weight_decay": 0.3, "batch_size": 20, "num_epochs": 1}
    ClassificationSolverViT(image_data(), image_data(8), ours, **settings).train()
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=0.3)
    images, labels = image_data()[:]
    nn.functional.cross_entropy(theirs(images), labels).backward()
    optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


@pytest.mark.parametrize(
    ("solver", "arguments"),
    [
        (CaptioningSolverTransformer, (small_captioner(), caption_data(), WORDS)),
        (ClassificationSolverViT, (image_data(), image_data(8), nn.Linear(6, 3))),
    ],
)
def test_unknown_keywords_are_refused_with_the_known_ones(solver, arguments: tuple) -> None:
    with pytest.raises(ValueError, match=rf"{solver.__name__}: keywords must be some of learning_rate.*got lr, epochs"):
        solver(*arguments, lr=0.1, epochs=3)


def test_data_without_training_captions_is_refused_before_any_step() -> None:
    data = {name: array for name, array in caption_data().items() if name != "train_features"}
    with pytest.raises(ValueError, match=r"data must be with training captions.*got one without train_features"):
        CaptioningSolverTransformer(small_captioner(), data, WORDS)
