"""Patches and the Vision Transformer against torch's convolution, torch's layers, torchvision and vit-pytorch."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.vit import PatchEmbedding, VisionTransformer

SIZES = {"img_size": (12, 20), "patch_size": (4, 5), "in_channels": 3}  # a grid of 3 x 4 patches
TINY = {**SIZES, "embed_dim": 14, "num_layers": 2, "num_heads": 2, "dim_feedforward": 22, "num_classes": 7}
PUBLISHED = {"pool": "cls", "positions": "learned", "norm_first": True}
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def images(batch: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, 12, 20, generator=generator, dtype=torch.float64).to(dtype)


def seeded(seed: int = 0, **options: object) -> VisionTransformer:
    """Make a model whose weights are far enough from their small start for differences to show."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = VisionTransformer(**{**TINY, **options}).double()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model.eval()


def copy_linear(target: nn.Linear, source: nn.Linear) -> None:
    target.weight.data.copy_(source.weight)
    target.bias.data.copy_(source.bias)


# --- patches


def test_patches_equal_a_convolution_with_the_same_weights() -> None:
    torch.manual_seed(1)
    embed = PatchEmbedding(**SIZES, embed_dim=7).double()
    kernel = embed.proj.weight.view(7, 3, 4, 5)
    expected = F.conv2d(images(), kernel, embed.proj.bias, stride=(4, 5)).flatten(2).transpose(1, 2)
    torch.testing.assert_close(embed(images()), expected, rtol=1e-12, atol=1e-12)


def identity_patches(img_size: object, patch_size: object, channels: int) -> PatchEmbedding:
    embed = PatchEmbedding(img_size, patch_size, channels, embed_dim=1).double()
    embed.proj = nn.Identity()
    return embed


def test_patches_go_row_by_row_and_pixels_channel_first() -> None:
    image = torch.arange(48.0, dtype=torch.float64).view(1, 3, 4, 4)
    patches = identity_patches(4, 2, 3)(image)
    top_left = [0, 1, 4, 5, 16, 17, 20, 21, 32, 33, 36, 37]
    assert patches[0].tolist() == [[pixel + shift for pixel in top_left] for shift in (0, 2, 8, 10)]


def test_the_image_can_be_put_together_again() -> None:
    image, patches = images(2), identity_patches((12, 20), (4, 5), 3)(images(2))
    rebuilt = torch.zeros_like(image)
    for p, (row, column) in enumerate(itertools.product(range(3), range(4))):
        block = patches[:, p].view(2, 3, 4, 5)
        rebuilt[:, :, 4 * row : 4 * row + 4, 5 * column : 5 * column + 5] = block
    assert torch.equal(rebuilt, image)


def test_patches_of_an_image_that_is_not_contiguous_are_the_same() -> None:
    embed = PatchEmbedding(**SIZES, embed_dim=7).double()
    channels_last = images().permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    sliced = images().repeat_interleave(2, dim=3)[:, :, :, ::2]
    expanded = images()[:1].expand(5, -1, -1, -1)
    assert torch.equal(embed(channels_last), embed(images()))
    assert torch.equal(embed(sliced), embed(images()))
    assert torch.equal(embed(expanded), embed(expanded.contiguous()))


def test_the_attributes_of_the_published_sheet() -> None:
    embed = PatchEmbedding(img_size=16, patch_size=8, embed_dim=8)
    names = ("img_size", "patch_size", "in_channels", "embed_dim", "num_patches", "patch_dim")
    assert [getattr(embed, name) for name in names] == [16, 8, 3, 8, 4, 192]
    assert isinstance(embed.proj, nn.Linear)
    assert list(embed.state_dict()) == ["proj.weight", "proj.bias"]


def test_the_published_patch_values_come_out() -> None:
    torch.manual_seed(231)
    embed = PatchEmbedding(img_size=16, patch_size=8, embed_dim=8)
    tokens = embed(torch.randn(2, 3, 16, 16))
    expected = torch.tensor(
        [-0.6312704, 0.02531429, 0.6112642, -0.49089882, 0.01412961, -0.6959372, -0.32862484, -0.45402682]
    )
    torch.testing.assert_close(tokens[0, 0].detach(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"img_size": 30, "patch_size": 8}, "img_size must be a multiple of patch_size 8 in height and width, got 30"),
        ({"img_size": (32, 20), "patch_size": 8}, r"multiple of patch_size 8 in height and width, got \(32, 20\)"),
        ({"img_size": 4, "patch_size": 8}, "multiple of patch_size 8 in height and width, got 4"),
        ({"img_size": 0, "patch_size": 8}, "img_size must be a positive whole number, got 0"),
        (
            {"img_size": 8, "patch_size": (2, 2, 2)},
            r"a whole number or \(height, width\), got \(2, 2, 2\)",
        ),
        ({"img_size": 8, "patch_size": 4, "in_channels": 0}, "in_channels must be a positive whole number, got 0"),
        ({"img_size": 8, "patch_size": 4, "embed_dim": -1}, "embed_dim must be a positive whole number, got -1"),
    ],
)
def test_patches_refuse_sizes_that_do_not_fit(sizes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PatchEmbedding(**sizes)


def test_patches_refuse_a_size_that_is_not_whole() -> None:
    with pytest.raises(TypeError, match=r"img_size must be a positive whole number, got 8.5"):
        PatchEmbedding(8.5, 4)


BAD_IMAGES = [
    (torch.zeros(1, 3, 12, 25), ValueError, r"images of \(H, W\) = \(12, 20\), got \(12, 25\)"),
    (torch.zeros(1, 3, 24, 40), ValueError, r"images of \(H, W\) = \(12, 20\), got \(24, 40\)"),
    (torch.zeros(1, 3, 20, 12), ValueError, r"images of \(H, W\) = \(12, 20\), got \(20, 12\)"),
    (torch.zeros(2, 1, 12, 20), ValueError, "images of 3 channels, got 1"),
    (torch.zeros(2, 4, 12, 20), ValueError, "images of 3 channels, got 4"),
    (torch.zeros(2, 12, 20, 3), ValueError, "images of 3 channels, got 12"),
    (torch.zeros(3, 12, 20), ValueError, r"of shape \(N, C, H, W\), got \(3, 12, 20\)"),
    (torch.zeros(1, 3, 12, 20, dtype=torch.uint8), TypeError, "floating dtype, got torch.uint8; convert pixels"),
    (
        torch.zeros(1, 3, 12, 20, dtype=torch.float64),
        TypeError,
        "torch.float32 like weights, got torch.float64",
    ),
    ([[0.0]], TypeError, r"x must be a torch.Tensor, got list"),
]


@pytest.mark.parametrize(("x", "error", "message"), BAD_IMAGES)
@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_bad_images_are_refused_by_patches_and_model_alike(x: object, error: type, message: str, options: dict) -> None:
    with pytest.raises(error, match=message):
        PatchEmbedding(**SIZES)(x)
    with pytest.raises(error, match=message):
        VisionTransformer(**TINY, **options)(x)


# --- the whole model


def sinusoids(length: int, width: int) -> Tensor:
    position = torch.arange(length, dtype=torch.float64)
    columns = [(torch.sin if c % 2 == 0 else torch.cos)(position / 10000 ** (c // 2 * 2 / width)) for c in range(width)]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_default_model_equals_one_made_of_torch_modules(norm_first: bool) -> None:
    model = seeded(norm_first=norm_first)
    layers = []
    for ours in model.transformer.layers:
        layer = nn.TransformerEncoderLayer(
            14, 2, 22, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first, dtype=torch.float64
        )
        attention = ours.self_attn
        parts = (attention.query, attention.key, attention.value)
        layer.self_attn.in_proj_weight.data.copy_(torch.cat([part.weight for part in parts]))
        layer.self_attn.in_proj_bias.data.copy_(torch.cat([part.bias for part in parts]))
        copy_linear(layer.self_attn.out_proj, attention.proj)
        copy_linear(layer.linear1, ours.ffn.fc1)
        copy_linear(layer.linear2, ours.ffn.fc2)
        copy_linear(layer.norm1, ours.norm_self)
        copy_linear(layer.norm2, ours.norm_ffn)
        layers.append(layer)
    proj = model.patch_embed.proj
    tokens = F.conv2d(images(), proj.weight.view(14, 3, 4, 5), proj.bias, stride=(4, 5)).flatten(2).transpose(1, 2)
    tokens = tokens + sinusoids(12, 14)
    for layer in layers:
        tokens = layer(tokens)
    if norm_first:
        tokens = F.layer_norm(tokens, (14,), model.transformer.norm.weight, model.transformer.norm.bias)
    expected = F.linear(tokens.mean(dim=1), model.head.weight, model.head.bias)
    torch.testing.assert_close(model(images()), expected, **CLOSE)


def square(**options: object) -> tuple[VisionTransformer, Tensor]:
    model = seeded(img_size=20, patch_size=5, **options)
    return model, torch.randn(5, 3, 20, 20, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("eps", [1e-5, 1e-6], ids=["ours", "theirs"])
def test_the_published_model_equals_that_of_torchvision(eps: float) -> None:
    """The epsilon of the norms is 1e-5 here and 1e-6 there: a checkpoint of theirs needs it set from outside."""
    from torchvision.models import VisionTransformer as Torchvision

    model, x = square(**PUBLISHED)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert [norm.eps for norm in norms] == [1e-5] * (2 * 2 + 1)
    for norm in norms:
        norm.eps = eps
    twin = Torchvision(20, 5, 2, 2, 14, 22, num_classes=7, norm_layer=partial(nn.LayerNorm, eps=eps)).double().eval()
    with torch.no_grad():
        twin.conv_proj.weight.copy_(model.patch_embed.proj.weight.view(14, 3, 5, 5))
        twin.conv_proj.bias.copy_(model.patch_embed.proj.bias)
        twin.class_token.copy_(model.class_token)
        twin.encoder.pos_embedding.copy_(model.positional_encoding.pe)
        copy_linear(twin.encoder.ln, model.transformer.norm)
        copy_linear(twin.heads.head, model.head)
        for theirs, ours in zip(twin.encoder.layers, model.transformer.layers, strict=True):
            parts = (ours.self_attn.query, ours.self_attn.key, ours.self_attn.value)
            theirs.self_attention.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            theirs.self_attention.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            copy_linear(theirs.self_attention.out_proj, ours.self_attn.proj)
            copy_linear(theirs.ln_1, ours.norm_self)
            copy_linear(theirs.ln_2, ours.norm_ffn)
            copy_linear(theirs.mlp[0], ours.ffn.fc1)
            copy_linear(theirs.mlp[3], ours.ffn.fc2)
    torch.testing.assert_close(model(x), twin(x), **CLOSE)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_the_published_model_equals_that_of_vit_pytorch(pool: str) -> None:
    vit_pytorch = pytest.importorskip("vit_pytorch", reason="vit-pytorch is in the dev extra")
    model = seeded(**{**PUBLISHED, "pool": pool})
    twin = vit_pytorch.ViT(
        image_size=(12, 20),
        patch_size=(4, 5),
        num_classes=7,
        dim=14,
        depth=2,
        heads=2,
        mlp_dim=22,
        dim_head=7,
        pool=pool,
    )
    twin = twin.double().eval()
    # Its newer versions put a LayerNorm before and behind the patch projection, which the paper does not have.
    for index, module in enumerate(twin.to_patch_embedding):
        if isinstance(module, nn.LayerNorm):
            twin.to_patch_embedding[index] = nn.Identity()
    linear = next(module for module in twin.to_patch_embedding if isinstance(module, nn.Linear))
    with torch.no_grad():
        weight = model.patch_embed.proj.weight.view(14, 3, 4, 5)
        linear.weight.copy_(weight.permute(0, 2, 3, 1).flatten(1))  # its pixels are (height, width, channel)
        linear.bias.copy_(model.patch_embed.proj.bias)
        if pool == "cls":
            twin.cls_token.copy_(model.class_token.view_as(twin.cls_token))
        twin.pos_embedding.copy_(model.positional_encoding.pe.view_as(twin.pos_embedding))
        copy_linear(twin.transformer.norm, model.transformer.norm)
        copy_linear(twin.mlp_head, model.head)
        for (attention, network), ours in zip(twin.transformer.layers, model.transformer.layers, strict=True):
            parts = (ours.self_attn.query, ours.self_attn.key, ours.self_attn.value)
            for part in parts:
                part.bias.zero_()  # it has none
            attention.to_qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            copy_linear(attention.norm, ours.norm_self)
            copy_linear(attention.to_out[0], ours.self_attn.proj)
            copy_linear(network.net[0], ours.norm_ffn)
            copy_linear(network.net[1], ours.ffn.fc1)
            copy_linear(network.net[4], ours.ffn.fc2)
    torch.testing.assert_close(model(images()), twin(images()), **CLOSE)


def test_without_positions_the_order_of_patches_does_not_matter_and_with_them_it_does() -> None:
    x = images()
    swapped = torch.cat((x[:, :, 4:8], x[:, :, :4], x[:, :, 8:]), dim=2)  # the first two rows of patches
    with_positions, without = seeded(), seeded()
    without.positional_encoding = nn.Identity()
    torch.testing.assert_close(without(swapped), without(x), **CLOSE)
    assert (with_positions(swapped) - with_positions(x)).abs().max() > 1e-3


@pytest.mark.parametrize("options", [{"pool": "mean"}, {"pool": "cls"}])
def test_moving_patches_together_with_their_positions_changes_nothing(options: dict) -> None:
    model = seeded(positions="learned", **options)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    moved = seeded(positions="learned", **options)
    first = int(options["pool"] == "cls")
    moved.positional_encoding.pe.data[:, first:] = model.positional_encoding.pe.data[:, first:][:, order]
    moved.patch_embed.register_forward_hook(lambda _module, _args, tokens: tokens[:, order])
    torch.testing.assert_close(moved(images()), model(images()), **CLOSE)


def test_the_class_token_is_read_and_the_patches_are_not() -> None:
    """With attention silenced, what the patches hold cannot reach the first token."""
    model = seeded(pool="cls")
    for layer in model.transformer.layers:
        nn.init.zeros_(layer.self_attn.proj.weight)
    assert torch.equal(model(images(seed=1)), model(images(seed=2)))
    pooled = seeded(pool="mean")
    for layer in pooled.transformer.layers:
        nn.init.zeros_(layer.self_attn.proj.weight)
    assert not torch.allclose(pooled(images(seed=1)), pooled(images(seed=2)))


def test_construction_follows_the_published_order_and_start() -> None:
    model = VisionTransformer()
    assert sum(parameter.numel() for parameter in model.parameters()) == 820_874
    top = [name for name, _ in model.named_children()]
    assert top == ["patch_embed", "positional_encoding", "transformer", "head"]
    assert model.class_token is None
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert torch.count_nonzero(parameter) == 0, name
        elif "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1), name


def test_the_weights_are_drawn_layer_by_layer_after_the_head_was_made() -> None:
    """A replay of the draws with torch's own functions gives the same weights."""
    torch.manual_seed(7)
    model = VisionTransformer(**TINY)
    torch.manual_seed(7)
    nn.Linear(60, 14)
    for _ in range(4):  # key, query, value, proj of the pattern that is copied
        nn.Linear(14, 14)
    nn.Linear(14, 22), nn.Linear(22, 14), nn.Linear(14, 7)
    drawn = [
        torch.empty(shape).normal_(0, 0.02) for shape in [(14, 60), *[*[(14, 14)] * 4, (22, 14), (14, 22)] * 2, (7, 14)]
    ]
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    assert len(matrices) == len(drawn)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(matrices, drawn, strict=True))


def test_a_class_token_draws_nothing_from_the_generator() -> None:
    states = []
    for pool in ("mean", "cls"):
        torch.manual_seed(3)
        VisionTransformer(**TINY, pool=pool)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_layers_start_apart_and_share_nothing() -> None:
    first, second = VisionTransformer(**TINY).transformer.layers
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.data_ptr() != b.data_ptr()
    assert not torch.equal(first.ffn.fc1.weight, second.ffn.fc1.weight)


@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_eval_repeats_itself_and_leaves_the_generator_alone_while_training_does_not(options: dict) -> None:
    model = seeded(dropout=0.5, **options)
    before = torch.get_rng_state()
    assert torch.equal(model(images()), model(images()))
    assert torch.equal(torch.get_rng_state(), before)
    model.train()
    assert not torch.equal(model(images()), model(images()))


@pytest.mark.parametrize("options", [{}, PUBLISHED, {"pool": "cls"}, {"positions": "learned"}, {"norm_first": True}])
def test_every_parameter_gets_a_gradient(options: dict) -> None:
    model = seeded(**options).train()
    model(images()).square().sum().backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    # A shift common to all keys cancels in the softmax: rounding alone is left.
    assert [name for name in silent if not name.endswith("self_attn.key.bias")] == []


@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_the_gradient_by_the_pixels_is_that_of_central_differences(options: dict) -> None:
    model = seeded(**options)
    x = images(1).requires_grad_()
    weights = torch.randn(7, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    (model(x) @ weights).sum().backward()
    for index in [(0, 0, 0, 0), (0, 1, 5, 13), (0, 2, 11, 19)]:
        up, down = x.detach().clone(), x.detach().clone()
        up[index] += 1e-5
        down[index] -= 1e-5
        slope = ((model(up) - model(down)) @ weights).item() / 2e-5
        assert x.grad[index].item() == pytest.approx(slope, rel=1e-6, abs=1e-8 * x.grad.abs().max().item())


@pytest.mark.parametrize("options", [{}, PUBLISHED])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_dtype_comes_out_as_it_went_in(options: dict, dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    model = VisionTransformer(**TINY, **options).eval()
    exact = model.double()(images())
    scores = model.to(dtype)(images(dtype=dtype))
    assert scores.dtype == dtype
    assert (scores.double() - exact).abs().max() < (1e-2 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_autocast_runs(options: dict) -> None:
    model = VisionTransformer(**TINY, **options).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(images(dtype=torch.float32))
    assert (scores.float() - model(images(dtype=torch.float32))).abs().max() < 2e-2


@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_shapes_can_be_worked_out_without_numbers(options: dict) -> None:
    model = VisionTransformer(**TINY, **options).to("meta")
    assert model(torch.empty(5, 3, 12, 20, device="meta")).shape == (5, 7)


@pytest.mark.parametrize("options", [{}, PUBLISHED])
def test_a_state_dict_holds_parameters_alone_and_restores_the_model(options: dict) -> None:
    model, other = seeded(0, **options), seeded(1, **options)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images()), model(images()))


def test_more_patches_than_a_default_table_has_rows_are_possible() -> None:
    model = VisionTransformer(img_size=144, patch_size=2, embed_dim=4, num_layers=1, num_heads=1, dim_feedforward=4).to(
        "meta"
    )
    assert model(torch.empty(1, 3, 144, 144, device="meta")).shape == (1, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "max"}, "pool must be one of 'mean', 'cls', got 'max'"),
        ({"positions": "2d"}, "positions must be one of 'sinusoidal', 'learned', got '2d'"),
        ({"num_classes": 0}, "num_classes must be a positive whole number, got 0"),
        ({"img_size": (13, 20)}, r"multiple of patch_size \(4, 5\) in height and width, got \(13, 20\)"),
        ({"num_heads": 3}, "multiple of num_heads = 3, got 14"),
        ({"num_layers": 0}, "num_layers must be a positive whole number, got 0"),
        ({"dropout": 1.5}, "dropout must be a probability from 0 to 1, got 1.5"),
        ({"embed_dim": 15, "num_heads": 3}, "embed_dim must be a positive even number, got 15"),
    ],
)
def test_a_model_refuses_options_that_do_not_fit(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VisionTransformer(**{**TINY, **options})


@pytest.mark.learning
def test_a_batch_is_learned_by_heart_in_120_steps() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(16, 4, embed_dim=32, num_layers=2, num_heads=4, dim_feedforward=64, dropout=0.0)
    x, labels = torch.rand(32, 3, 16, 16), torch.arange(32) % 10
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()
    assert (model(x).argmax(dim=1) == labels).all()
