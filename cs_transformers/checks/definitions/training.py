"""What the checks of the training exercises share: a look at how a model is trained, and what became of its weights.

An observation gives no points. It is the mark by which a known mistake is told from another that trains as badly.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .probe import Probe

GOAL = "the goal is reached"
TINY_RATE = 2e-4
NORMALISED = 10.0  # pixels of 0 to 255 spread by more, normalised ones by about 1


class Watch:
    """Looks on while a model is trained: are there steps, do they find gradients, are old ones cleared.

    Args:
        model: The model that is trained.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self.steps = self.empty_steps = self.backwards = self.uncleared = 0
        self.rate = 0.0

    def __enter__(self) -> Watch:
        """Start to look on."""
        self._hook = register_optimizer_step_pre_hook(self._before_step)
        self._backward = torch.Tensor.backward

        def backward(tensor: Tensor, *args: Any, **kwargs: Any) -> None:
            self.backwards += 1
            self.uncleared += self._has_gradients()
            self._backward(tensor, *args, **kwargs)

        torch.Tensor.backward = backward
        return self

    def __exit__(self, *_: object) -> None:
        """Stop looking on."""
        self._hook.remove()
        torch.Tensor.backward = self._backward

    def record(self, probe: Probe) -> None:
        """Keep what was seen.

        Args:
            probe: The check's probe.
        """
        with probe.part("observed"):
            probe.record("updates", self._updates())
            probe.record("learning rate", "none" if not self.steps else "tiny" if self.rate < TINY_RATE else "usual")

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.steps += 1
        self.empty_steps += not self._has_gradients()
        self.rate = max(self.rate, *(float(group["lr"]) for group in optimizer.param_groups))

    def _has_gradients(self) -> bool:
        gradients = (parameter.grad for parameter in self.parameters)
        return any(gradient is not None and bool(gradient.any()) for gradient in gradients)

    def _updates(self) -> str:
        if not self.steps:
            return "the optimizer never steps"
        if self.empty_steps == self.steps:
            return "no step finds a gradient"
        if self.backwards > 1 and self.uncleared >= self.backwards - 1:
            return "gradients are never cleared"
        return "steps follow their gradients"


class InputWatch:
    """Notes the spread of the images that a module of a class sees, in training and out of it.

    Args:
        kind: Class of the modules to look at.
    """

    def __init__(self, kind: type[nn.Module]) -> None:
        self.kind = kind
        self.spread: dict[bool, float] = {}

    def __enter__(self) -> InputWatch:
        """Start to look on."""

        def before(module: nn.Module, args: tuple[Any, ...]) -> None:
            if (
                isinstance(module, self.kind)
                and args
                and isinstance(args[0], Tensor)
                and module.training not in self.spread
            ):
                self.spread[module.training] = float(args[0].detach().float().std())

        self._hook = torch.nn.modules.module.register_module_forward_pre_hook(before)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop looking on."""
        self._hook.remove()

    def record(self, probe: Probe) -> None:
        """Keep what was seen.

        Args:
            probe: The check's probe.
        """
        with probe.part("observed"):
            for training, name in ((True, "training images"), (False, "unlabelled images")):
                spread = self.spread.get(training)
                probe.record(name, "not seen" if spread is None else "raw" if spread > NORMALISED else "normalised")


def record_weights(probe: Probe, model: nn.Module) -> None:
    """Keep a model's weights under the current part.

    Args:
        probe: The check's probe.
        model: The trained model.
    """
    for name, tensor in model.state_dict().items():
        probe.record(name, tensor)


def load_weights(probe: Probe, part: str, model: nn.Module) -> bool:
    """Put the recorded weights into a fresh model; says whether they differ from its own.

    Args:
        probe: The check's probe.
        part: Part under which they were recorded.
        model: The model, with the initial weights of the training.
    """
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    weights = {name: torch.from_numpy(probe.given[f"{part}/{name}"]) for name in start}
    model.load_state_dict(weights)
    return any(not torch.equal(weights[name], start[name]) for name in start)


def fate_of_loss(before: float, after: float, goal: float, moved: bool) -> str:
    """Say in words what became of a loss.

    Args:
        before: Loss of the initial weights.
        after: Loss of the trained ones.
        goal: What it should have fallen below.
        moved: Whether the weights changed at all.
    """
    if not moved:
        return "the weights did not move"
    if math.isnan(after) or math.isinf(after):
        return "the loss is not finite"
    if after < goal:
        return GOAL
    return "the loss grew" if after > before else "the loss fell too little"
