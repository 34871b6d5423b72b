"""Optimizers: every parameter in exactly one of them, decay only where it means something."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.training.muon import Muon
from cs_transformers.training.optimizers import layer_matrices, make_optimizers, parameter_groups
from cs_transformers.vit import VisionTransformer


def small_vit() -> VisionTransformer:
    sizes = {"img_size": 8, "patch_size": 4, "embed_dim": 12, "num_layers": 2, "num_heads": 2, "dim_feedforward": 20}
    return VisionTransformer(**sizes, num_classes=5, pool="cls", positions="learned", norm_first=True)


def small_captioner() -> CaptioningTransformer:
    words = {"<NULL>": 0, "<START>": 1, "<END>": 2, "cat": 3}
    return CaptioningTransformer(words, input_dim=6, wordvec_dim=8, num_heads=2, num_layers=1)


def names_of(model: nn.Module, parameters: list) -> set[str]:
    ids = {id(parameter) for parameter in parameters}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


@pytest.mark.parametrize("make", [small_vit, small_captioner])
@pytest.mark.parametrize("name", ["adamw", "adam", "muon"])
def test_every_parameter_is_in_exactly_one_group(make, name: str) -> None:
    model = make()
    groups = [group for optimizer in make_optimizers(model, name) for group in optimizer.param_groups]
    taken = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(taken) == sorted(id(parameter) for parameter in model.parameters())


def test_only_matrices_that_mix_features_decay() -> None:
    model = small_vit()
    decayed = names_of(model, parameter_groups(model, 0.1)[0]["params"])
    assert decayed == {name for name, p in model.named_parameters() if p.dim() == 2 and "positional" not in name}
    captioner = small_captioner()
    assert "embedding.weight" not in names_of(captioner, parameter_groups(captioner, 0.1)[0]["params"])
    convolution = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4))
    assert names_of(convolution, parameter_groups(convolution, 0.1)[0]["params"]) == {"0.weight"}


def test_a_step_without_gradient_shrinks_matrices_alone() -> None:
    model = small_vit()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in make_optimizers(model, "adamw", learning_rate=0.1, weight_decay=0.5):
        optimizer.step()
    decayed = names_of(model, parameter_groups(model, 0.5)[0]["params"])
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, before[name] * (0.95 if name in decayed else 1.0))


def test_muon_takes_the_matrices_of_the_layers() -> None:
    model = small_vit()
    adam, muon = make_optimizers(model, "muon", learning_rate=0.2, muon_rate=0.3)
    assert (type(adam).__name__, type(muon).__name__) == ("AdamW", "Muon")
    taken = names_of(model, [parameter for group in muon.param_groups for parameter in group["params"]])
    assert taken == {name for name, p in model.named_parameters() if "layers" in name and p.dim() == 2}
    assert (adam.param_groups[0]["lr"], muon.param_groups[0]["lr"]) == (0.2, 0.3)


def test_frozen_parameters_are_left_alone() -> None:
    model = small_vit()
    model.patch_embed.requires_grad_(False)
    model.transformer.layers[0].requires_grad_(False)
    groups = [group for optimizer in make_optimizers(model, "muon") for group in optimizer.param_groups]
    names = names_of(model, [parameter for group in groups for parameter in group["params"]])
    assert names == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert len(layer_matrices(model)) == 6


def test_shared_weights_are_taken_once() -> None:
    layer = nn.Linear(4, 4)
    model = nn.ModuleList([layer, layer])
    assert len(layer_matrices(model)) == 1
    assert sum(len(group["params"]) for group in parameter_groups(model, 0.1)) == 2


def test_what_another_optimizer_takes_is_left_out() -> None:
    model = small_vit()
    matrices = layer_matrices(model)
    rest = [parameter for group in parameter_groups(model, 0.1, leave_out=matrices) for parameter in group["params"]]
    assert len(rest) + len(matrices) == len(list(model.parameters()))
    assert not {id(parameter) for parameter in rest} & {id(parameter) for parameter in matrices}


def test_a_kernel_of_a_convolution_moves_like_the_matrix_it_is() -> None:
    torch.manual_seed(0)
    kernel, gradient = nn.Parameter(torch.randn(4, 3, 2, 2)), torch.randn(4, 3, 2, 2)
    matrix = nn.Parameter(kernel.detach().flatten(1).clone())
    for parameter, wanted in ((kernel, gradient), (matrix, gradient.flatten(1))):
        optimizer = Muon([parameter], lr=0.1, weight_decay=0.2)
        for _ in range(3):
            parameter.grad = wanted.clone()
            optimizer.step()
    torch.testing.assert_close(kernel.flatten(1), matrix)


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of adamw, adam, muon, got 'sgd'"):
        make_optimizers(small_vit(), "sgd")
    with pytest.raises(ValueError, match="expected parameters to train in Identity, got none"):
        make_optimizers(nn.Identity())
