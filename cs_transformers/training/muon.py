"""Muon: momentum whose every update is turned into the nearest matrix that treats all directions alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from cs_transformers.errors import explain

# Coefficients of an odd polynomial that lifts small singular values fast; five rounds bring all near 1, none to it.
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315


def orthogonalise(matrices: Tensor, rounds: int = 5) -> Tensor:
    """Keep the directions of a matrix and make them about equally strong: U S V^T becomes about U V^T.

    Each round applies ``a X + b (X X^T) X + c (X X^T)^2 X``, which acts on every singular value by itself and needs
    nothing but products.

    Args:
        matrices: (..., rows, columns) matrices, each treated by itself.
        rounds: Number of rounds.

    Returns:
        Matrices of the same shape, singular values between about 0.7 and 1.2 where they were not close to 0.

    Example:
        >>> turned = orthogonalise(torch.diag(torch.tensor([5.0, -1.0])))
        >>> bool(((turned.diagonal().abs() - 1).abs() < 0.4).all()), turned[0, 1].item()
        (True, 0.0)

    Source:
        Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks.
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    X = matrices.mT if is_tall else matrices  # the products below are cheapest over the shorter side
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = X @ X.mT
        X = LINEAR * X + (CUBIC * gram + QUINTIC * gram @ gram) @ X
    return X.mT if is_tall else X


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalised updates, for the weight matrices inside a network.

    A gradient is dominated by a few directions; here all directions that it has move at the same speed, which saves
    many steps where steps are few. The same method as ``torch.optim.Muon`` (torch 2.9 and later), for every torch, in
    the parameters' own precision, and with all matrices of one shape in a single product.

    Args:
        params: Matrices, or groups of them; a kernel of a convolution (out, in, height, width) counts as the matrix
            (out, in * height * width).
        lr: Rate: the length that an update has along each direction; matrices taller than wide by a factor r get
            sqrt(r) of it.
        momentum: Share of the running mean that is kept at each step.
        weight_decay: Decoupled decay, in units of the rate.

    Raises:
        ValueError: If a parameter is no matrix, or a number lies outside its range.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(2, 2))
        >>> weight.grad = torch.tensor([[100.0, 0.0], [0.0, 1.0]])
        >>> Muon([weight], lr=0.1).step()
        >>> bool(weight[0, 0] < -0.06) and bool(weight[1, 1] < -0.02)
        True

    Source:
        Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 5e-3,
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        for name, value, holds, expected in (
            ("lr", lr, lr > 0, "above 0"),
            ("momentum", momentum, 0 <= momentum < 1, "in [0, 1)"),
            ("weight_decay", weight_decay, weight_decay >= 0, "0 or more"),
        ):
            if not holds:
                raise ValueError(explain("Muon", name, expected, value, f"change {name}"))
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        for parameter in (parameter for group in self.param_groups for parameter in group["params"]):
            if parameter.dim() < 2:
                fix = "give biases and norms to AdamW"
                raise ValueError(explain("Muon", "params", "matrices", f"shape {tuple(parameter.shape)}", fix))

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Move every matrix that has a gradient.

        Args:
            closure: Function that computes the loss and its gradients anew, or None.

        Returns:
            What the closure returned, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alike: dict[tuple, list[Tensor]] = {}
            for parameter in (parameter for parameter in group["params"] if parameter.grad is not None):
                alike.setdefault((parameter.shape, parameter.dtype, parameter.device), []).append(parameter)
            for parameters in alike.values():
                self._move(parameters, group)
        return loss

    def _move(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        rows, columns = parameters[0].flatten(1).shape
        for parameter in parameters:
            if "mean" not in self.state[parameter]:
                self.state[parameter]["mean"] = torch.zeros_like(parameter)
            self.state[parameter]["mean"].lerp_(parameter.grad, 1 - group["momentum"])
        # Nesterov's form: the running mean once more moved towards the gradient.
        ahead = [parameter.grad.lerp(self.state[parameter]["mean"], group["momentum"]) for parameter in parameters]
        length = group["lr"] * max(1.0, rows / columns) ** 0.5
        for parameter, update in zip(parameters, orthogonalise(torch.stack(ahead).flatten(2)), strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update.view_as(parameter), alpha=length)
