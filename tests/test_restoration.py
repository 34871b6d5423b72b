"""The restoration Transformer against torch's own folding, attention and norms, in float64 with copied weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from cs_transformers.restoration import (
    MIDDLE,
    SPREAD,
    TASKS,
    ImageRestorationTransformer,
    ResidualBlock,
    bicubic,
    contrastive_loss,
    fold_patches,
    task_scale,
    unfold_patches,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SIZES = {"img_size": 6, "patch_size": 2, "features": 3, "num_heads": 2, "num_layers": 2, "dim_feedforward": 20}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(tasks: tuple[str, ...] = ("x2", "denoise30", "x3"), **options: object) -> ImageRestorationTransformer:
    """Make a model whose weights are far from their small start, the zeros of the tails included."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = ImageRestorationTransformer(tasks, **{**SIZES, **options}).double()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model.eval()


# --- patches


@pytest.mark.parametrize(("height", "width", "patch"), [(4, 10, 2), (6, 9, 3), (5, 5, 5), (3, 4, 1)])
def test_patches_equal_torchs_unfold_and_fold(height: int, width: int, patch: int) -> None:
    x = noise(2, 5, height, width)
    patches = unfold_patches(x, patch)
    torch.testing.assert_close(patches, F.unfold(x, patch, stride=patch).transpose(1, 2), rtol=0, atol=0)
    torch.testing.assert_close(
        fold_patches(patches, (height, width), patch),
        F.fold(patches.transpose(1, 2), (height, width), patch, stride=patch),
        rtol=0,
        atol=0,
    )


def test_patches_equal_loops() -> None:
    x = noise(2, 3, 4, 6)
    patches = unfold_patches(x, 2)
    for number in range(6):
        row, column = divmod(number, 3)
        block = x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert torch.equal(patches[:, number], block.reshape(2, -1))


def test_there_and_back_changes_nothing_and_gradients_pass() -> None:
    x = noise(2, 5, 4, 10).requires_grad_()
    back = fold_patches(unfold_patches(x, 2), (4, 10), 2)
    assert torch.equal(back, x)
    (grad,) = torch.autograd.grad((back * noise(2, 5, 4, 10, seed=3)).sum(), x)
    assert torch.equal(grad, noise(2, 5, 4, 10, seed=3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_patches_keep_dtype_and_device(dtype: torch.dtype) -> None:
    patches = unfold_patches(torch.zeros(1, 2, 4, 4, dtype=dtype, device="meta"), 2)
    assert (patches.dtype, patches.device.type, patches.shape) == (dtype, "meta", (1, 4, 8))


# --- resizing


@pytest.mark.parametrize("size", [(11, 16), (22, 32), (44, 64), (33, 48), (7, 5)])
def test_bicubic_equals_pillow_up_and_down(size: tuple[int, int]) -> None:
    x = torch.rand(1, 1, 22, 32, generator=torch.Generator().manual_seed(2))
    picture = Image.fromarray(x[0, 0].numpy(), mode=None)
    expected = np.asarray(picture.resize(size[::-1], Image.Resampling.BICUBIC))
    np.testing.assert_allclose(bicubic(x, size)[0, 0].numpy(), expected, atol=2e-6)


def test_bicubic_keeps_constants_and_low_dtypes() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        result = bicubic(torch.full((1, 3, 5, 7), 0.5, dtype=dtype), (10, 3))
        assert result.dtype == dtype
        torch.testing.assert_close(result.float(), torch.full((1, 3, 10, 3), 0.5), rtol=0, atol=1e-6)


# --- the model


def attend(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention by torch's module with our weights."""
    torch_attention = nn.MultiheadAttention(query.shape[-1], 2, bias=False, batch_first=True).double().eval()
    stacked = torch.cat([getattr(attention, name).weight for name in ("query", "key", "value")])
    torch_attention.in_proj_weight.data.copy_(stacked)
    torch_attention.out_proj.weight.data.copy_(attention.proj.weight)
    return torch_attention(query, key, value, need_weights=False)[0]


def published(model: ImageRestorationTransformer, x: Tensor, task: str) -> Tensor:
    """The published forward pass, step by step, with torch's parts."""
    norm, scale = (
        (lambda layer, t: F.layer_norm(t, t.shape[-1:], layer.weight, layer.bias, layer.eps)),
        task_scale(task),
    )
    head = model.heads[task]
    h = F.conv2d((x - MIDDLE) / SPREAD, head[0].weight, head[0].bias, padding=1)
    for block in head[1:]:
        first, _, second = block.body
        h = h + F.conv2d(F.conv2d(h, first.weight, first.bias, padding=2).relu(), second.weight, second.bias, padding=2)
    z = F.unfold(h, 2, stride=2).transpose(1, 2)
    z = z + F.linear(z, model.embed.weight, model.embed.bias) + model.positions
    for layer in model.encoder:
        y = norm(layer.norm_self, z)
        z = z + attend(layer.self_attn, y, y, y)
        z = z + layer.ffn.fc2(layer.ffn.fc1(norm(layer.norm_ffn, z)).relu())
    q = model.task_embedding.weight[model.tasks.index(task)].view(1, 9, 12)
    y = z
    for layer in model.decoder:
        n = norm(layer.norm_self, y)
        y = y + attend(layer.self_attn, n + q, n + q, n)
        y = y + attend(layer.cross_attn, norm(layer.norm_cross, y) + q, z, z)
        y = y + layer.ffn.fc2(layer.ffn.fc1(norm(layer.norm_ffn, y)).relu())
    y = y + F.linear(F.linear(y, model.mlp[0].weight, model.mlp[0].bias).relu(), model.mlp[2].weight, model.mlp[2].bias)
    t = F.fold(y.transpose(1, 2), (6, 6), 2, stride=2) + h
    tail = model.tails[task]
    if scale > 1:
        t = F.pixel_shuffle(F.conv2d(t, tail[0].weight, tail[0].bias, padding=1), scale)
    large = F.interpolate(x, scale_factor=scale, mode="bicubic", antialias=True)
    return large + SPREAD * F.conv2d(t, tail[-1].weight, tail[-1].bias, padding=1)


@pytest.mark.parametrize("task", ["x2", "denoise30", "x3"])
def test_the_model_equals_the_published_steps_with_torchs_attention(task: str) -> None:
    model, x = seeded(), noise(3, 3, 6, 6)
    torch.testing.assert_close(model(x, task), published(model, x, task), **CLOSE)


def test_the_models_gradients_equal_those_of_the_published_steps() -> None:
    model, x = seeded(), noise(2, 3, 6, 6)
    upstream = noise(2, 3, 12, 12, seed=5)
    shared = [model.positions, model.task_embedding.weight, model.embed.weight, model.heads["x2"][0].weight]
    ours = torch.autograd.grad((model(x, "x2") * upstream).sum(), shared)
    theirs = torch.autograd.grad((published(model, x, "x2") * upstream).sum(), shared)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("task", TASKS)
def test_an_untrained_model_gives_back_the_enlarged_input(task: str) -> None:
    model, x = ImageRestorationTransformer(**SIZES), noise(2, 3, 6, 6).float()
    scale = task_scale(task)
    assert torch.equal(model(x, task), bicubic(x, (6 * scale, 6 * scale)))


def test_four_times_larger_goes_through_two_doublings() -> None:
    model = seeded(("x4",))
    shuffles = [layer.upscale_factor for layer in model.tails["x4"] if isinstance(layer, nn.PixelShuffle)]
    assert shuffles == [2, 2]
    assert model(noise(1, 3, 6, 6), "x4").shape == (1, 3, 24, 24)


def test_only_the_embedding_the_head_and_the_tail_tell_tasks_apart() -> None:
    model, x = seeded(("denoise30", "derain")), noise(2, 3, 6, 6)
    assert not torch.allclose(model(x, "denoise30"), model(x, "derain"))
    model.heads["derain"].load_state_dict(model.heads["denoise30"].state_dict())
    model.tails["derain"].load_state_dict(model.tails["denoise30"].state_dict())
    assert not torch.allclose(model(x, "denoise30"), model(x, "derain"))
    with torch.no_grad():
        model.task_embedding.weight[1] = model.task_embedding.weight[0]
    assert torch.equal(model(x, "denoise30"), model(x, "derain"))


def test_a_task_trains_its_own_head_tail_and_embedding_and_the_shared_body() -> None:
    model = seeded(("denoise30", "derain"))
    model(noise(2, 3, 6, 6), "derain").sum().backward()
    for name, parameter in model.named_parameters():
        changed = parameter.grad is not None and bool((parameter.grad != 0).any())
        assert changed == ("denoise30" not in name), name
    assert not model.task_embedding.weight.grad[0].any()


def test_the_tokens_are_what_the_decoder_says_of_each_patch() -> None:
    model, x = seeded(), noise(2, 3, 6, 6)
    restored, tokens = model(x, "x2", need_tokens=True)
    assert torch.equal(restored, model(x, "x2"))
    assert tokens.shape == (2, 9, 12)


def test_copies_of_a_layer_start_with_different_weights() -> None:
    first, second = ImageRestorationTransformer(**SIZES).encoder
    assert not torch.equal(first.ffn.fc1.weight, second.ffn.fc1.weight)


def test_the_defaults_are_the_published_sizes() -> None:
    with torch.device("meta"):
        model = ImageRestorationTransformer()
    assert (model.embed_dim, model.num_patches, len(model.encoder), len(model.decoder)) == (576, 256, 12, 12)
    assert model.encoder[0].ffn.fc1.out_features == 4 * 576
    assert model.encoder[0].self_attn.n_head == 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_output_has_the_dtype_of_the_weights(dtype: torch.dtype) -> None:
    model = seeded().to(dtype)
    assert model(noise(1, 3, 6, 6).to(dtype), "x2").dtype == dtype


# --- whole images


@pytest.mark.parametrize(
    ("height", "width"), [(6, 6), (17, 11), (1, 1), (3, 40), (5, 4), (13, 6)], ids=lambda side: str(side)
)
@pytest.mark.parametrize("task", ["x2", "x3", "denoise30"])
def test_any_size_comes_out_exactly_scaled(task: str, height: int, width: int) -> None:
    scale = task_scale(task)
    assert seeded().restore(noise(1, 3, height, width), task).shape == (1, 3, scale * height, scale * width)


def test_an_odd_photo_is_enlarged_to_the_pixel() -> None:
    model = ImageRestorationTransformer(("x3",), img_size=48, patch_size=8, features=2, num_heads=2, num_layers=1)
    photo = torch.rand(1, 3, 339, 510, generator=torch.Generator().manual_seed(4))
    restored = model.restore(photo, "x3", batch_size=64)
    assert restored.shape == (1, 3, 1017, 1530)
    torch.testing.assert_close(restored, bicubic(photo, (1017, 1530)).clamp(0, 1), rtol=0, atol=1e-6)


def test_one_tile_restores_as_forward_does() -> None:
    model, x = seeded(), noise(2, 3, 6, 6)
    torch.testing.assert_close(model.restore(x, "x2"), model(x, "x2").clamp(0, 1), **CLOSE)


def test_restoring_puts_every_mode_back_and_leaves_no_graph() -> None:
    model = seeded(dropout=0.5).train()
    model.encoder[0].eval()
    modes = [module.training for module in model.modules()]
    restored = model.restore(noise(1, 3, 9, 9), "x2")
    assert [module.training for module in model.modules()] == modes
    assert not restored.requires_grad
    assert torch.equal(restored, model.restore(noise(1, 3, 9, 9), "x2"))


def test_modes_come_back_after_an_error_too() -> None:
    model = seeded().train()
    with pytest.raises(ValueError, match="overlap must be below the tile"):
        model.restore(noise(1, 3, 9, 9), "x2", overlap=6)
    assert all(module.training for module in model.modules())


# --- the contrastive loss


def test_the_contrastive_loss_equals_loops() -> None:
    tokens = noise(3, 4, 5)
    losses = []
    for image in range(3):
        others = [tokens[k, c] for k in range(3) if k != image for c in range(4)]
        for a in range(4):
            for b in range(4):
                if a == b:
                    continue
                pull = math.exp(F.cosine_similarity(tokens[image, a], tokens[image, b], dim=0))
                push = sum(math.exp(F.cosine_similarity(tokens[image, a], other, dim=0)) for other in others)
                losses.append(-math.log(pull / (pull + push)))
    assert contrastive_loss(tokens).item() == pytest.approx(sum(losses) / len(losses), abs=1e-9)


def test_the_contrastive_loss_falls_when_images_differ_and_patches_agree() -> None:
    spread = noise(3, 4, 5)
    grouped = noise(3, 1, 5).expand(3, 4, 5) + 0.01 * spread
    assert contrastive_loss(grouped) < contrastive_loss(spread)
    assert contrastive_loss(7 * spread).item() == pytest.approx(contrastive_loss(spread).item(), abs=1e-12)


# --- errors


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "task must be x2, x3 or x4", lambda: task_scale("x5")),
        (ValueError, "x must be a multiple of patch_size 4", lambda: unfold_patches(noise(1, 3, 8, 10), 4)),
        (ValueError, r"x must be of shape \(N, C, H, W\)", lambda: unfold_patches(noise(3, 8, 8), 4)),
        (TypeError, "patch_size must be a positive whole number", lambda: unfold_patches(noise(1, 3, 8, 8), 2.0)),
        (TypeError, "x must be", lambda: unfold_patches(torch.ones(1, 3, 8, 8, dtype=torch.int64), 2)),
        (ValueError, r"patches must be of shape \(N, 6, C \* 4\)", lambda: fold_patches(noise(1, 5, 12), (4, 6), 2)),
        (ValueError, r"patches must be of shape \(N, 6, C \* 4\)", lambda: fold_patches(noise(1, 6, 13), (4, 6), 2)),
        (ValueError, "size must be a multiple of patch_size 2", lambda: fold_patches(noise(1, 6, 12), (4, 5), 2)),
        (TypeError, "patches must be", lambda: fold_patches([1], (4, 6), 2)),
        (ValueError, "size must be", lambda: bicubic(noise(1, 3, 4, 4), (0, 4))),
        (ValueError, "images must be of shape", lambda: bicubic(noise(3, 4, 4), (2, 4))),
        (ValueError, "task must be one of", lambda: seeded()(noise(1, 3, 6, 6), "derain")),
        (ValueError, r"x must be of shape \(N, C, H, W\) = \(any, 3, 6, 6\), got \(1, 3, 6, 8\); cut a square",
         lambda: seeded()(noise(1, 3, 6, 8), "x2")),
        (ValueError, r"C, H, W\) = \(any, 3", lambda: seeded()(noise(1, 1, 6, 6), "x2")),
        (ValueError, "x must be of pixels from 0 to 1, got values", lambda: seeded()(255 * noise(1, 3, 6, 6), "x2")),
        (ValueError, "images must be of pixels from 0 to 1", lambda: seeded().restore(255 * noise(1, 3, 9, 9), "x2")),
        (ValueError, "task must be one of", lambda: seeded().restore(noise(1, 3, 6, 6), "x4")),
        (ValueError, r"images must be of shape", lambda: seeded().restore(noise(3, 6, 6), "x2")),
        (ValueError, r"images must be of shape", lambda: seeded().restore(noise(1, 1, 6, 6), "x2")),
        (ValueError, "tasks must be a sequence of different names", lambda: seeded(("x2", "x2"))),
        (ValueError, "tasks must be a sequence of different names", lambda: ImageRestorationTransformer("x2", **SIZES)),
        (ValueError, "tasks must be a sequence of different names", lambda: seeded(())),
        (ValueError, "task must be x2, x3 or x4", lambda: seeded(("x7",))),
        (ValueError, "img_size must be a multiple of patch_size 2", lambda: seeded(img_size=7)),
        (ValueError, "num_heads", lambda: seeded(num_heads=5)),
        (ValueError, "features must be", lambda: seeded(features=0)),
        (ValueError, "dim_feedforward must be", lambda: seeded(dim_feedforward=0)),
        (TypeError, "num_layers must be", lambda: seeded(num_layers=1.5)),
        (ValueError, "two images with two patches or more, got", lambda: contrastive_loss(noise(1, 3, 5))),
        (ValueError, "two images with two patches or more, got", lambda: contrastive_loss(noise(3, 1, 5))),
        (ValueError, r"tokens must be of shape \(N, P, D\)", lambda: contrastive_loss(noise(3, 5))),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_reason(error: type[Exception], message: str, call: object) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_residual_block_adds_what_its_convolutions_find() -> None:
    block = ResidualBlock(4, 3).double()
    nn.init.zeros_(block.body[2].weight)
    nn.init.zeros_(block.body[2].bias)
    x = noise(2, 4, 5, 7)
    assert torch.equal(block(x), x)
