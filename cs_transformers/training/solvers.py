"""Stanford's solvers under their own names: thin fronts of the loop for notebooks that were written for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from cs_transformers.captioning import caption_loss
from cs_transformers.errors import explain
from cs_transformers.training.config import FitConfig
from cs_transformers.training.history import History
from cs_transformers.training.loop import evaluate_loss, fit
from cs_transformers.training.losses import classification_loss


class CaptioningSolverTransformer:
    """Stanford's captioning solver: Adam on captions drawn with replacement, loss averaged over all positions.

    Args:
        model: Captioner, trained in place.
        data: Dict of a captions data set, as the loaders give it.
        idx_to_word: The words by id.
        **kwargs: ``learning_rate`` (1e-3), ``batch_size`` (100), ``num_epochs`` (10), ``print_every`` (10), ``verbose``
            (True), and ``seed`` (231) for the order of the captions.

    Attributes:
        loss_history: One 0-d numpy array per step.

    Raises:
        ValueError: If a keyword is unknown, or the data has no training captions with features.
    """

    def __init__(
        self, model: nn.Module, data: Mapping[str, Any], idx_to_word: Sequence[str] | Mapping[int, str], **kwargs: Any
    ) -> None:
        options = {"learning_rate": 1e-3, "batch_size": 100, "num_epochs": 10, "print_every": 10, "verbose": True}
        options = _options("CaptioningSolverTransformer", kwargs, {**options, "seed": 231})
        missing = [name for name in ("train_captions", "train_image_idxs", "train_features") if name not in data]
        if missing:
            fix = "pass what load_coco_data or load_flickr8k gives"
            expected, got = "with training captions and their features", f"one without {', '.join(missing)}"
            raise ValueError(explain("CaptioningSolverTransformer", "data", expected, got, fix))
        self.model, self.data, self.idx_to_word = model, data, idx_to_word
        self.learning_rate, self.batch_size = options["learning_rate"], options["batch_size"]
        self.num_epochs, self.print_every = options["num_epochs"], options["print_every"]
        self.verbose, self.seed = options["verbose"], options["seed"]
        self.loss_history: list[np.ndarray] = []

    def train(self) -> None:
        """Train for ``num_epochs`` passes, ``max(captions // batch_size, 1)`` steps each."""
        captions = _Captions(self.data)
        steps = self.num_epochs * max(len(captions) // self.batch_size, 1)
        config = FitConfig(
            steps=steps,
            batch_size=self.batch_size,
            replacement=True,
            optimizer="adam",
            learning_rate=self.learning_rate,
            weight_decay=0.0,
            schedule="constant",
            clip_norm=None,
            seed=self.seed + len(self.loss_history),
            progress=False,
            evaluate_every=steps,
        )
        null, first = self.model._null, len(self.loss_history)

        def loss(model: nn.Module, batch: Any) -> Tensor:
            features, words = batch
            value = caption_loss(model(features, words[:, :-1]), words, null=null, mean_over="positions")
            self.loss_history.append(value.detach().cpu().numpy())
            self._print(len(self.loss_history) - first, steps)
            return value

        fit(self.model, captions, loss=loss, config=config)

    def _print(self, step: int, steps: int) -> None:
        if self.verbose and (step - 1) % self.print_every == 0:
            print(f"(Iteration {step} / {steps}) loss: {float(self.loss_history[-1]):f}")


class ClassificationSolverViT:
    """Stanford's classification solver: Adam, the accuracy on test data after every epoch.

    Its ``best_test_acc`` is the best of several looks at the test data, as in the original: report a figure of
    ``fit`` with a validation split instead.

    Args:
        train_data: Images (C, H, W) with their classes.
        test_data: The same for the test.
        model: Classifier, trained in place.
        **kwargs: ``learning_rate`` (1e-4), ``weight_decay`` (0.0), ``batch_size`` (64), ``num_epochs`` (2), and
            ``seed`` (231) for the order of the images.

    Attributes:
        results: Dict with the lists ``train_loss``, ``train_acc@1``, ``test_loss``, ``test_acc@1`` of the epochs and
            ``best_test_acc``.

    Raises:
        ValueError: If a keyword is unknown.
    """

    def __init__(self, train_data: Dataset, test_data: Dataset, model: nn.Module, **kwargs: Any) -> None:
        options = {"learning_rate": 1e-4, "weight_decay": 0.0, "batch_size": 64, "num_epochs": 2, "seed": 231}
        options = _options("ClassificationSolverViT", kwargs, options)
        self.train_data, self.test_data, self.model = train_data, test_data, model
        self.learning_rate, self.weight_decay = options["learning_rate"], options["weight_decay"]
        self.batch_size, self.num_epochs, self.seed = options["batch_size"], options["num_epochs"], options["seed"]
        self.results: dict[str, Any] = {}

    def train(self, device: torch.device | str = "cpu") -> None:
        """Train for ``num_epochs`` passes.

        Args:
            device: Where to; the model is moved there.
        """
        self.model.to(device)
        loss = classification_loss()
        config = FitConfig(
            epochs=self.num_epochs,
            batch_size=self.batch_size,
            optimizer="adam",
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule="constant",
            clip_norm=None,
            seed=self.seed,
            monitor="test_acc@1",
            keep_best=False,
        )

        def evaluate(model: nn.Module) -> dict[str, float]:
            figures = evaluate_loss(model, self.test_data, loss=loss, batch_size=self.batch_size)
            return {"test_loss": figures["loss"], "test_acc@1": figures["accuracy"]}

        self.results = _as_results(fit(self.model, self.train_data, loss=loss, config=config, evaluate=evaluate))


class _Captions(Dataset):
    """Training captions of a data dict with their features, a batch at a time."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.captions, self.rows = data["train_captions"], np.asarray(data["train_image_idxs"])
        self.features = data["train_features"]

    def __len__(self) -> int:
        return len(self.captions)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        chosen = indices.numpy()
        features = np.asarray(self.features[self.rows[chosen]], dtype=np.float32)
        return torch.from_numpy(features), torch.from_numpy(np.asarray(self.captions[chosen], dtype=np.int64))


def _as_results(history: History) -> dict[str, Any]:
    return {
        "train_loss": history["train_loss"],
        "train_acc@1": history["train_accuracy"],
        "test_loss": history["test_loss"],
        "test_acc@1": history["test_acc@1"],
        "best_test_acc": max(history["test_acc@1"]),
    }


def _options(who: str, given: Mapping[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    unknown = [name for name in given if name not in known]
    if unknown:
        expected = f"some of {', '.join(known)}"
        raise ValueError(explain(who, "keywords", expected, ", ".join(unknown), "correct the spelling or leave it out"))
    return {**known, **given}
