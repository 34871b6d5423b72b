"""Checks of notebook 09: what is computed on which inputs."""

from __future__ import annotations

import torch

from cs_transformers import restoration, texture
from cs_transformers.training import image_scores

from .probe import H, N, Probe, check

CHANNELS, PATCH, ROWS, COLUMNS = 5, 2, 3, 4
SIZES = {"img_size": 6, "patch_size": 2, "features": 3, "num_heads": H, "num_layers": 2, "dim_feedforward": 20}
WIDTH, PATCHES = 12, 9  # of that model


@check("9.1")
def _unfold_and_fold(probe: Probe) -> None:
    """A map that is no square, its patches, and patches that come from no map."""
    size = (ROWS * PATCH, COLUMNS * PATCH)
    x = probe.tensor("x", N, CHANNELS, *size)
    patches = probe.tensor("patches", N, ROWS * COLUMNS, CHANNELS * PATCH**2)
    with probe.part("values: unfold_patches"):
        probe.record("patches", restoration.unfold_patches(x, PATCH))
    with probe.part("values: fold_patches"):
        probe.record("image", restoration.fold_patches(patches, size, PATCH))
    with probe.part("gradients"):
        probe.gradients(restoration.unfold_patches(x, PATCH), x=x)
        probe.gradients(restoration.fold_patches(patches, size, PATCH), patches=patches)
    with probe.part("invariant: there and back"):
        for side in (1, 2):
            back = restoration.fold_patches(restoration.unfold_patches(x, side), size, side)
            probe.record(f"kept with patches of {side}", bool(torch.equal(back, x)))


@check("9.2")
def _decode(probe: Probe) -> None:
    """Two tasks of one model; gradients of what this function connects."""
    model = probe.fill(restoration.ImageRestorationTransformer(("x2", "denoise30", "derain"), **SIZES))
    memory = probe.tensor("memory", N, PATCHES, WIDTH)
    with probe.part("values"):
        probe.record("tokens of the second task", model._decode(memory, 1))
    with probe.part("values: another task"):
        probe.record("tokens of the third task", model._decode(memory, 2))
    with probe.part("gradients"):
        parts = {
            name: parameter
            for name, parameter in model.named_parameters()
            if name.startswith(("task_embedding", "mlp", "decoder.0.norm", "decoder.1.norm"))
        }
        probe.gradients(model._decode(memory, 1), parts, memory=memory)
    with probe.part("invariant: the task matters"):
        same = torch.allclose(model._decode(memory, 0), model._decode(memory, 1))
        probe.record("two tasks give the same tokens", same)


@check("9.3")
def _psnr(probe: Probe) -> None:
    """Images near the truth, some pixels outside [0, 1], with and without a border; several of different quality."""
    target = torch.sigmoid(probe.tensor("target", N, 3, 8, 7)).detach()
    noise = probe.tensor("noise", N, 3, 8, 7).detach()
    with probe.part("values"):
        probe.record("decibels of one image", image_scores.psnr(target[:1] + 0.4 * noise[:1], target[:1]))
    with probe.part("values: several images"):
        strength = torch.tensor([0.02, 0.1, 0.5], dtype=torch.float64).view(N, 1, 1, 1)
        probe.record("decibels", image_scores.psnr(target + strength * noise, target))
        probe.record("decibels without the border", image_scores.psnr(target + strength * noise, target, border=2))


@check("9.4")
def _search(probe: Probe) -> None:
    """Two maps of different sizes; scores that come from nowhere; a map that searches in itself."""
    query, key = probe.tensor("query", N, CHANNELS, 4, 3), probe.tensor("key", N, CHANNELS, 2, 5)
    scores = probe.tensor("scores", N, 7, 11)
    with probe.part("values: relevance"):
        probe.record("relevance", texture.relevance(query, key))
    with probe.part("values: hard_index"):
        strength, index = texture.hard_index(scores)
        probe.record("strength", strength)
        probe.record("index", index)
    with probe.part("gradients"):
        probe.gradients(texture.relevance(query, key), query=query, key=key)
        probe.gradients(texture.hard_index(scores)[0], scores=scores)
    with probe.part("invariant: an image finds itself"):
        strength, index = texture.hard_index(texture.relevance(query, 2 * query))
        probe.record("places", index)
        probe.record("certain", bool(torch.allclose(strength, torch.ones_like(strength))))


@check("9.5")
def _transfer(probe: Probe) -> None:
    """One pixel per place and several; a reference of another size; a reference of one colour."""
    (h, w), (hr, wr) = (3, 4), (2, 5)
    index = probe.integers("index", N, h * w, high=hr * wr)
    with probe.part("values"):
        value = probe.tensor("value", N, CHANNELS, hr, wr)
        probe.record("copied", texture.transfer_texture(value, index, (h, w)))
    with probe.part("values: several pixels per place"):
        for factor in (2, 4):
            value = probe.tensor(f"value {factor}", N, 2, factor * hr, factor * wr)
            probe.record(f"copied with factor {factor}", texture.transfer_texture(value, index, (h, w), factor))
    with probe.part("gradients"):
        value = probe.tensor("value", N, CHANNELS, 2 * hr, 2 * wr)
        probe.gradients(texture.transfer_texture(value, index, (h, w), 2), value=value)
    with probe.part("invariant: constants stay constant"):
        grey = torch.full((N, 1, 2 * hr, 2 * wr), 0.3, dtype=torch.float64)
        moved = texture.transfer_texture(grey, index, (h, w), 2)
        probe.record("constant", bool(torch.allclose(moved, torch.full_like(moved, 0.3))))
