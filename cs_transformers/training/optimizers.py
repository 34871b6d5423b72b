"""Optimizers for transformers: which parameters decay, and which of them Muon takes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from cs_transformers.training.muon import Muon

OPTIMIZERS = ("adamw", "adam", "muon")


def parameter_groups(model: nn.Module, weight_decay: float, *, leave_out: Iterable[nn.Parameter] = ()) -> list[dict]:
    """Sort the parameters into those that decay and those that do not.

    Decay pulls towards zero, which makes sense for the matrices that mix features, not for offsets, norms, embeddings
    and positions, whose zero means nothing.

    Args:
        model: Model whose trainable parameters are sorted.
        weight_decay: Decay of the matrices.
        leave_out: Parameters that another optimizer takes.

    Returns:
        One or two parameter groups for an optimizer; empty groups are left out.

    Example:
        >>> model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 3), nn.LayerNorm(3))
        >>> [len(group["params"]) for group in parameter_groups(model, 0.1)]
        [1, 4]
    """
    matrices = {id(parameter) for parameter in _matrices(model)}
    taken = {id(parameter) for parameter in leave_out}
    trainable = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
    groups = [
        {"params": [p for p in trainable if id(p) in matrices], "weight_decay": weight_decay},
        {"params": [p for p in trainable if id(p) not in matrices], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Find the weight matrices inside the layer stacks: what Muon is made for.

    The first projection of the input, the embeddings and the last projection to classes or words are not among them.

    Args:
        model: Model with its layers in ``nn.ModuleList`` objects.

    Returns:
        The trainable weights of all Linear modules below a ModuleList, each once.

    Example:
        >>> model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(4, 4)]), "head": nn.Linear(4, 2)})
        >>> len(layer_matrices(model))
        1
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    found = {
        id(module.weight): module.weight
        for stack in stacks
        for module in stack.modules()
        if isinstance(module, nn.Linear) and module.weight.requires_grad
    }
    return list(found.values())


def make_optimizers(
    model: nn.Module,
    name: str = "adamw",
    *,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    muon_rate: float = 5e-3,
) -> list[torch.optim.Optimizer]:
    """Build the optimizers of a recipe by name.

    Args:
        model: Model to train.
        name: "adamw", "adam", or "muon" for Muon on the layers' matrices and AdamW on the rest.
        learning_rate: Peak rate of Adam.
        weight_decay: Decay of matrices; "adam" adds it to the gradient of every parameter.
        betas: Adam's decay rates of the two moments.
        muon_rate: Peak rate of Muon.

    Returns:
        One or two optimizers that share out the trainable parameters.

    Raises:
        ValueError: If the name is unknown or the model has nothing to train.

    Example:
        >>> [type(optimizer).__name__ for optimizer in make_optimizers(nn.Linear(3, 2))]
        ['AdamW']

    Source:
        Loshchilov and Hutter 2019, Decoupled weight decay, arXiv:1711.05101; Jordan et al. 2024, Muon.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"make_optimizers: expected one of {', '.join(OPTIMIZERS)}, got {name!r}; name one of them.")
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ValueError(
            f"make_optimizers: expected parameters to train in {type(model).__name__}, got none; "
            "check requires_grad and that the model has parameters."
        )
    if name == "adam":
        return [torch.optim.Adam(trainable, lr=learning_rate, weight_decay=weight_decay, betas=betas)]
    matrices = layer_matrices(model) if name == "muon" else []
    rest = parameter_groups(model, weight_decay, leave_out=matrices)
    optimizers = [torch.optim.AdamW(rest, lr=learning_rate, betas=betas)] if rest else []
    if matrices:
        optimizers.append(Muon(matrices, lr=muon_rate, weight_decay=weight_decay))
    return optimizers


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    """Trainable weights of the modules that mix features."""
    mixers = (nn.Linear, nn.modules.conv._ConvNd)
    return [module.weight for module in model.modules() if isinstance(module, mixers) and module.weight.requires_grad]
