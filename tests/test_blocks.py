"""Layers and stacks against torch's own with copied weights, and against what must hold whatever the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cs_transformers.attention import MultiHeadAttention, causal_mask
from cs_transformers.blocks import (
    FeedForwardNetwork,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    clone_layers,
    init_weights,
    with_pos,
)
from cs_transformers.cache import DecoderCache, DecoderLayerCache
from cs_transformers.numerics import gradient_check

N, T, S, H, D, F_, L = 3, 4, 5, 2, 12, 20, 2
EXACT = {"rtol": 1e-9, "atol": 1e-9}
KINDS = [(norm_first, activation) for norm_first in (False, True) for activation in ("gelu", "relu")]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def coin(*shape: int, seed: int = 0) -> Tensor:
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., 0] = True
    return mask


def fill(model: nn.Module, seed: int = 7) -> nn.Module:
    """Random values everywhere, norms included, so that no part can be left out unnoticed."""
    model.double()
    for offset, (name, parameter) in enumerate(model.named_parameters()):
        parameter.data = noise(*parameter.shape, seed=seed + offset) / 3 + (
            1.0 if ".norm" in f".{name}" and "w" in name else 0.0
        )
    return model


def encoder_layer(**options: Any) -> TransformerEncoderLayer:
    return fill(TransformerEncoderLayer(D, H, F_, 0.0, **options))


def decoder_layer(**options: Any) -> TransformerDecoderLayer:
    return fill(TransformerDecoderLayer(D, H, F_, 0.0, **options))


def copy_attention(ours: MultiHeadAttention, twin: nn.MultiheadAttention) -> None:
    layers = (ours.query, ours.key, ours.value)
    twin.in_proj_weight.data = torch.cat([layer.weight.data for layer in layers])
    twin.out_proj.load_state_dict(ours.proj.state_dict())
    if twin.in_proj_bias is not None:
        twin.in_proj_bias.data = torch.cat([layer.bias.data for layer in layers])


def torch_layer(ours: nn.Module, activation: str) -> nn.Module:
    decoder = isinstance(ours, TransformerDecoderLayer)
    kind = nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer
    bias = ours.ffn.fc1.bias is not None
    twin = kind(D, H, F_, 0.0, activation, batch_first=True, norm_first=ours.norm_first, bias=bias).double()
    copy_attention(ours.self_attn, twin.self_attn)
    pairs = [(ours.ffn.fc1, twin.linear1), (ours.ffn.fc2, twin.linear2), (ours.norm_self, twin.norm1)]
    if decoder:
        copy_attention(ours.cross_attn, twin.multihead_attn)
        pairs += [(ours.norm_cross, twin.norm2), (ours.norm_ffn, twin.norm3)]
    else:
        pairs += [(ours.norm_ffn, twin.norm2)]
    for source, target in pairs:
        target.load_state_dict(source.state_dict())
    return twin.train()  # in eval mode torch takes another path


def gradients(output: Tensor, *tensors: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad((output * noise(*output.shape, seed=99)).sum(), tensors, retain_graph=True))


def assert_alike(got: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


class Factor(nn.Module):
    """Dropout that is the same for everybody: a fixed factor by position."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, x: Tensor) -> Tensor:
        return x * noise(*x.shape, seed=self.seed)


# ---------------------------------------------------------------- feed-forward


@pytest.mark.parametrize(("activation", "function"), [("gelu", nn.functional.gelu), ("relu", torch.relu)])
def test_the_network_is_two_linear_maps_around_an_exact_activation(
    activation: str, function: Callable[[Tensor], Tensor]
) -> None:
    network = fill(FeedForwardNetwork(D, F_, 0.0, activation=activation))
    x = noise(N, T, D)
    hidden = function(x @ network.fc1.weight.T + network.fc1.bias)
    torch.testing.assert_close(network(x), hidden @ network.fc2.weight.T + network.fc2.bias, **EXACT)


def test_dropout_stands_between_activation_and_second_map() -> None:
    network = fill(FeedForwardNetwork(D, F_))
    network.dropout = Factor(3)
    x = noise(N, T, D)
    torch.testing.assert_close(network(x), network.fc2(Factor(3)(nn.functional.gelu(network.fc1(x)))), **EXACT)


def test_the_network_works_on_each_token_by_itself() -> None:
    network, x = fill(FeedForwardNetwork(D, F_, 0.0)), noise(N, T, D)
    torch.testing.assert_close(network(x)[1, 2], network(x[1, 2]), **EXACT)


def test_the_networks_parts_bear_the_published_names() -> None:
    assert [name for name, _ in FeedForwardNetwork(D, F_).named_children()] == ["fc1", "gelu", "dropout", "fc2"]


# ---------------------------------------------------------------- layers against torch


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_the_encoder_layer_equals_torchs(norm_first: bool, activation: str, bias: bool, masked: bool) -> None:
    ours = encoder_layer(norm_first=norm_first, activation=activation, bias=bias)
    twin = torch_layer(ours, activation)
    src, copy = noise(N, T, D).requires_grad_(), noise(N, T, D).requires_grad_()
    mask, key_mask = (coin(T, T), coin(N, T, seed=1)) if masked else (None, None)
    out = ours(src, mask, src_key_mask=key_mask)
    expected = twin(copy, None if mask is None else ~mask, None if key_mask is None else ~key_mask)
    torch.testing.assert_close(out, expected, **EXACT)
    pairs = [(ours.ffn.fc1.weight, twin.linear1.weight), (ours.norm_self.weight, twin.norm1.weight)]
    pairs += [(ours.self_attn.proj.weight, twin.self_attn.out_proj.weight), (src, copy)]
    assert_alike(gradients(out, *[a for a, _ in pairs]), gradients(expected, *[b for _, b in pairs]))
    stacked = torch.cat(gradients(out, *[getattr(ours.self_attn, name).weight for name in ("query", "key", "value")]))
    assert_alike([stacked], gradients(expected, twin.self_attn.in_proj_weight))


@pytest.mark.parametrize(("norm_first", "activation"), KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [False, True])
def test_the_decoder_layer_equals_torchs(norm_first: bool, activation: str, bias: bool, masked: bool) -> None:
    ours = decoder_layer(norm_first=norm_first, activation=activation, bias=bias)
    twin = torch_layer(ours, activation)
    inputs, copies = ([noise(N, T, D).requires_grad_(), noise(N, S, D, seed=1).requires_grad_()] for _ in range(2))
    masks, blocked = {}, {}
    if masked:
        masks = {
            "tgt_mask": causal_mask(T),
            "memory_mask": coin(T, S),
            "tgt_key_mask": coin(N, T, seed=1),
            "memory_key_mask": coin(N, S, seed=2),
        }
        blocked = {name.replace("key_mask", "key_padding_mask"): ~mask for name, mask in masks.items()}
    out, expected = ours(*inputs, **masks), twin(*copies, **blocked)
    torch.testing.assert_close(out, expected, **EXACT)
    pairs = [(ours.ffn.fc2.weight, twin.linear2.weight), (ours.norm_cross.weight, twin.norm2.weight)]
    pairs += [(ours.cross_attn.proj.weight, twin.multihead_attn.out_proj.weight), *zip(inputs, copies, strict=True)]
    assert_alike(gradients(out, *[a for a, _ in pairs]), gradients(expected, *[b for _, b in pairs]))
    layers = [getattr(ours.cross_attn, name).weight for name in ("query", "key", "value")]
    assert_alike([torch.cat(gradients(out, *layers))], gradients(expected, twin.multihead_attn.in_proj_weight))


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_stands_where_torch_has_it(norm_first: bool) -> None:
    encoder, decoder = encoder_layer(norm_first=norm_first), decoder_layer(norm_first=norm_first)
    for ours in (encoder, decoder):
        twin = torch_layer(ours, "gelu")
        names = ["dropout_self", "dropout_cross", "dropout_ffn"] if ours is decoder else ["dropout_self", "dropout_ffn"]
        for number, name in enumerate(names, start=1):
            setattr(ours, name, Factor(number))
            setattr(twin, f"dropout{number}", Factor(number))
        ours.ffn.dropout, twin.dropout = Factor(9), Factor(9)
        inputs = (noise(N, T, D), noise(N, S, D, seed=1))[: 2 if ours is decoder else 1]
        torch.testing.assert_close(ours(*inputs), twin(*inputs), **EXACT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_stacks_equal_torchs_with_a_final_norm_just_for_pre_norm(norm_first: bool) -> None:
    norm = nn.LayerNorm(D).double() if norm_first else None
    encoder = TransformerEncoder(encoder_layer(norm_first=norm_first), L)
    decoder = TransformerDecoder(decoder_layer(norm_first=norm_first), L)
    for offset, layer in enumerate([*encoder.layers, *decoder.layers]):
        fill(layer, seed=100 * offset)
    for ours, kind in ((encoder, nn.TransformerEncoder), (decoder, nn.TransformerDecoder)):
        options = {"enable_nested_tensor": False} if ours is encoder else {}
        twin = kind(torch_layer(ours.layers[0], "gelu"), L, norm, **options).train()
        twin.layers = nn.ModuleList([torch_layer(layer, "gelu") for layer in ours.layers])
        inputs = (noise(N, T, D), noise(N, S, D, seed=1))[: 1 if ours is encoder else 2]
        torch.testing.assert_close(ours(*inputs, causal_mask(T)), twin(*inputs, ~causal_mask(T)), **EXACT)
        assert isinstance(ours.norm, nn.LayerNorm) == norm_first


def test_the_final_norm_follows_its_layers_dtype_and_bias() -> None:
    stack = TransformerEncoder(TransformerEncoderLayer(D, H, F_, norm_first=True, bias=False).double(), L)
    assert (stack.norm.weight.dtype, stack.norm.bias, stack.norm.normalized_shape) == (torch.float64, None, (D,))
    with torch.device("meta"):
        layer = TransformerDecoderLayer(D, H, F_, norm_first=True)
    assert TransformerDecoder(layer, L).norm.weight.device.type == "meta"


def test_parts_are_created_and_registered_in_the_published_order() -> None:
    encoder, decoder = TransformerEncoderLayer(D, H), TransformerDecoderLayer(D, H)
    parts = ["self_attn", "ffn", "norm_self", "norm_ffn", "dropout_self", "dropout_ffn"]
    assert [name for name, _ in encoder.named_children()] == parts
    parts = ["self_attn", "cross_attn", "ffn", "norm_self", "norm_cross", "norm_ffn"]
    parts += ["dropout_self", "dropout_cross", "dropout_ffn"]
    assert [name for name, _ in decoder.named_children()] == parts
    assert (encoder.ffn.fc1.out_features, encoder.dropout_self.p, encoder.self_attn.attn_drop.p) == (2048, 0.1, 0.1)


def test_an_unused_option_draws_nothing_from_the_generator() -> None:
    def next_number(**options: Any) -> float:
        torch.manual_seed(3)
        TransformerDecoder(TransformerDecoderLayer(D, H, F_, **options), L)
        return torch.rand(()).item()

    assert next_number() == next_number(norm_first=True, activation="relu")


# ---------------------------------------------------------------- positions inside the layers


@pytest.mark.parametrize("norm_first", [False, True])
def test_positions_join_queries_and_keys_but_not_values_as_in_detr(norm_first: bool) -> None:
    ours = decoder_layer(norm_first=norm_first, activation="relu")
    twin = torch_layer(ours, "relu")
    tgt, memory, query_pos, memory_pos = (
        noise(N, T, D),
        noise(N, S, D, seed=1),
        noise(T, D, seed=2),
        noise(N, S, D, seed=3),
    )

    def look(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention(query, key, value, need_weights=False)[0]

    x, keys = tgt, memory + memory_pos
    if norm_first:
        y = twin.norm1(x)
        x = x + look(twin.self_attn, y + query_pos, y + query_pos, y)
        x = x + look(twin.multihead_attn, twin.norm2(x) + query_pos, keys, memory)
        expected = x + twin.linear2(torch.relu(twin.linear1(twin.norm3(x))))
    else:
        x = twin.norm1(x + look(twin.self_attn, x + query_pos, x + query_pos, x))
        x = twin.norm2(x + look(twin.multihead_attn, x + query_pos, keys, memory))
        expected = twin.norm3(x + twin.linear2(torch.relu(twin.linear1(x))))
    torch.testing.assert_close(ours(tgt, memory, query_pos=query_pos, memory_pos=memory_pos), expected, **EXACT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_adds_positions_in_every_layer(norm_first: bool) -> None:
    stack = TransformerEncoder(encoder_layer(norm_first=norm_first), L)
    src, pos, x = noise(N, T, D), noise(1, T, D, seed=1), noise(N, T, D)
    for layer in stack.layers:
        y = layer.norm_self(x) if norm_first else x
        attended = layer.self_attn(y + pos, y + pos, y)
        x = x + attended if norm_first else layer.norm_self(x + attended)
        x = x + layer.ffn(layer.norm_ffn(x)) if norm_first else layer.norm_ffn(x + layer.ffn(x))
    expected = stack.norm(x) if norm_first else x
    torch.testing.assert_close(stack(src, pos=pos), expected, **EXACT)


def test_without_positions_the_tokens_are_passed_on_themselves() -> None:
    x = noise(N, T, D)
    assert with_pos(x, None) is x
    assert with_pos(x.half(), x).dtype == torch.float16


# ---------------------------------------------------------------- properties


@pytest.mark.parametrize("norm_first", [False, True])
def test_with_sublayers_of_zero_pre_norm_is_the_identity_and_post_norm_is_not(norm_first: bool) -> None:
    for layer in (encoder_layer(norm_first=norm_first), decoder_layer(norm_first=norm_first)):
        attentions = [module for module in layer.modules() if isinstance(module, MultiHeadAttention)]
        for last in [layer.ffn.fc2, *[attention.proj for attention in attentions]]:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        inputs = (noise(N, T, D), noise(N, S, D, seed=1))[: len(attentions)]
        assert torch.equal(layer(*inputs), inputs[0]) == norm_first


def test_rows_behind_a_post_norm_have_mean_0_and_variance_1() -> None:
    for layer, inputs in (
        (TransformerEncoderLayer(D, H, F_, 0.0).double(), (noise(N, T, D),)),
        (TransformerDecoderLayer(D, H, F_, 0.0).double(), (noise(N, T, D), noise(N, S, D, seed=1))),
    ):
        out = layer(*inputs)
        torch.testing.assert_close(out.mean(-1), torch.zeros(N, T, dtype=torch.float64), rtol=0, atol=1e-9)
        torch.testing.assert_close(
            out.var(-1, unbiased=False), torch.ones(N, T, dtype=torch.float64), rtol=0, atol=1e-4
        )


@pytest.mark.parametrize("norm_first", [False, True])
def test_permuting_the_tokens_permutes_the_encoders_output(norm_first: bool) -> None:
    stack, x, order = TransformerEncoder(encoder_layer(norm_first=norm_first), L), noise(N, T, D), [2, 0, 3, 1]
    torch.testing.assert_close(stack(x[:, order]), stack(x)[:, order], **EXACT)


@pytest.mark.parametrize("norm_first", [False, True])
def test_future_tokens_do_not_change_the_past_under_a_causal_mask(norm_first: bool) -> None:
    layer, memory = decoder_layer(norm_first=norm_first), noise(N, S, D, seed=1)
    for entry in (layer, TransformerDecoder(layer, L)):
        before = entry(noise(N, T, D), memory, causal_mask(T))
        for changed in range(1, T):
            tgt = noise(N, T, D)
            tgt[:, changed] += 5
            after = entry(tgt, memory, causal_mask(T))
            assert torch.equal(after[:, :changed], before[:, :changed])
            assert not torch.equal(after[:, changed:], before[:, changed:])
    tgt = noise(N, T, D)
    tgt[:, -1] += 5
    assert not torch.equal(layer(tgt, memory)[:, 0], layer(noise(N, T, D), memory)[:, 0])  # no mask hides nothing


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_in_target_and_memory_influences_no_real_token(norm_first: bool) -> None:
    stack = TransformerDecoder(decoder_layer(norm_first=norm_first), L)
    tgt, memory, real, seen = noise(N, T, D), noise(N, S, D, seed=1), coin(N, T), coin(N, S, seed=1)
    masks = {"tgt_key_mask": real, "memory_key_mask": seen}
    before = stack(tgt, memory, causal_mask(T), **masks)
    after = stack(tgt + 5 * (~real)[..., None], memory + 5 * (~seen)[..., None], causal_mask(T), **masks)
    assert torch.equal(after[real], before[real])


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_row_that_sees_nothing_stays_finite_in_values_and_gradients(norm_first: bool) -> None:
    layer, tgt = decoder_layer(norm_first=norm_first), noise(N, T, D).requires_grad_()
    mask = causal_mask(T)
    mask[1] = False
    out = layer(tgt, noise(N, S, D, seed=1), mask, memory_key_mask=torch.zeros(N, S))
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(out, tgt, *layer.parameters()))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_layers_pass_central_differences(norm_first: bool) -> None:
    encoder, decoder = encoder_layer(norm_first=norm_first), decoder_layer(norm_first=norm_first)
    assert gradient_check(encoder, [noise(2, 3, D), coin(3, 3)], max_entries=40) < 1e-6
    assert gradient_check(decoder, [noise(2, 3, D), noise(2, S, D, seed=1), causal_mask(3)], max_entries=40) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm_first", [False, True])
def test_output_has_the_inputs_dtype(dtype: torch.dtype, norm_first: bool) -> None:
    layer = decoder_layer(norm_first=norm_first)
    stack = TransformerDecoder(layer, L).to(dtype)
    tgt, memory = noise(N, T, D).to(dtype), noise(N, S, D, seed=1).to(dtype)
    out = stack(tgt, memory, causal_mask(T), query_pos=noise(T, D), memory_key_mask=coin(N, S))
    assert out.dtype == dtype
    assert out.isfinite().all()


def test_autocast_keeps_float32_between_the_layers() -> None:
    stack, x = TransformerEncoder(encoder_layer(), L).float(), noise(N, T, D).float()
    with torch.autocast("cpu", torch.bfloat16):
        out = stack(x, causal_mask(T))
    assert out.dtype == torch.float32
    assert (out - stack(x, causal_mask(T))).abs().max() < 0.1


@pytest.mark.parametrize("norm_first", [False, True])
def test_nothing_is_made_on_a_device_other_than_the_inputs(norm_first: bool) -> None:
    with torch.device("meta"):
        stack = TransformerDecoder(TransformerDecoderLayer(D, H, F_, norm_first=norm_first), L)
        tgt, memory, mask = torch.zeros(N, T, D), torch.zeros(N, S, D), torch.zeros(T, T)
    out = stack(tgt, memory, mask, cache=DecoderCache(L))
    assert (out.device.type, out.shape) == ("meta", (N, T, D))


def test_memory_layout_makes_no_difference() -> None:
    layer, memory = decoder_layer(), noise(1, S, D, seed=1).expand(N, S, D)
    for x in (noise(D, T, N).permute(2, 1, 0), noise(1, T, D).expand(N, T, D), noise(N, 2 * T, D)[:, ::2]):
        expected = layer(x.contiguous(), memory.contiguous(), causal_mask(T))
        torch.testing.assert_close(layer(x, memory, causal_mask(T)), expected, **EXACT)


def test_eval_repeats_itself_and_draws_nothing_train_does_not() -> None:
    stack = TransformerDecoder(TransformerDecoderLayer(D, H, F_, 0.5).double(), L)
    tgt, memory = noise(N, T, D), noise(N, S, D, seed=1)
    before = torch.random.get_rng_state()
    stack.eval()
    assert torch.equal(stack(tgt, memory), stack(tgt, memory))
    assert torch.equal(torch.random.get_rng_state(), before)
    stack.train()
    assert not torch.equal(stack(tgt, memory), stack(tgt, memory))


# ---------------------------------------------------------------- clones


def test_clones_start_alike_and_share_nothing_not_even_with_the_pattern() -> None:
    pattern = TransformerDecoderLayer(D, H, F_)
    layers = clone_layers(pattern, 3)
    assert isinstance(layers, nn.ModuleList)
    everything = [parameter for layer in (pattern, *layers) for parameter in layer.parameters()]
    assert len({id(parameter) for parameter in everything}) == 4 * len(list(pattern.parameters()))
    assert len({parameter.data_ptr() for parameter in everything}) == len(everything)
    for layer in layers:
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), pattern.parameters(), strict=True))


def test_a_stack_holds_its_own_layers_and_as_many_as_asked() -> None:
    pattern = TransformerEncoderLayer(D, H, F_)
    stack = TransformerEncoder(pattern, 3)
    assert stack.num_layers == len(stack.layers) == 3
    assert len(list(stack.parameters())) == 3 * len(list(pattern.parameters()))
    nn.init.zeros_(pattern.ffn.fc1.weight)
    assert all((layer.ffn.fc1.weight != 0).any() for layer in stack.layers)


# ---------------------------------------------------------------- decoding with a cache


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (2, 1, 1)])
def test_step_by_step_gives_what_the_full_pass_gives(norm_first: bool, steps: tuple[int, ...]) -> None:
    stack = TransformerDecoder(decoder_layer(norm_first=norm_first), L)
    tgt, memory, memory_pos, query_pos = (
        noise(N, T, D),
        noise(N, S, D, seed=1),
        noise(S, D, seed=2),
        noise(T, D, seed=3),
    )
    fixed = {"memory_pos": memory_pos, "memory_key_mask": coin(N, S)}
    expected = stack(tgt, memory, causal_mask(T), query_pos=query_pos, **fixed)
    cache, outputs = DecoderCache(L), []
    for width in steps:
        start, stop = cache.length, cache.length + width
        mask = causal_mask(width, stop)
        new = stack(tgt[:, start:stop], memory, mask, query_pos=query_pos[start:stop], cache=cache, **fixed)
        outputs.append(new)
    assert cache.length == T
    torch.testing.assert_close(torch.cat(outputs, 1), expected, **EXACT)


def test_the_memory_is_projected_by_the_first_step_alone() -> None:
    layer, cache, seen = decoder_layer(), DecoderLayerCache(), []
    layer.cross_attn.key.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[1]))
    memory = noise(N, S, D, seed=1)
    for step in range(3):
        layer(noise(N, 1, D, seed=step), memory, cache=cache)
    assert seen == [S, 0, 0]
    assert (cache.self_attn.length, cache.cross_attn.length) == (3, S)


def test_after_reordering_every_row_continues_its_own_past() -> None:
    stack = TransformerDecoder(decoder_layer(), L)
    tgt, memory, order = noise(N, T, D), noise(N, S, D, seed=1), torch.tensor([2, 0, 0])
    cache = DecoderCache(L)
    stack(tgt[:, :3], memory, causal_mask(3), cache=cache)
    cache.reorder(order)
    last = stack(tgt[:, 3:], memory[order], cache=cache)
    rows = torch.cat((tgt[order, :3], tgt[:, 3:]), 1)
    torch.testing.assert_close(last, stack(rows, memory[order], causal_mask(T))[:, 3:], **EXACT)


# ---------------------------------------------------------------- another attention


class Mean(nn.Module):
    """A drop-in of the plainest kind: every query gets the mean of all values."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.built_with = (embed_dim, num_heads, dropout)
        self.calls: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []

    def forward(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        self.calls.append((query, key, value, attn_mask))
        return value.mean(1, keepdim=True).expand_as(query)


@pytest.mark.parametrize("norm_first", [False, True])
def test_another_attention_is_built_and_called_in_place_of_ours(norm_first: bool) -> None:
    layer = fill(TransformerDecoderLayer(D, H, F_, 0.25, norm_first=norm_first, attention=Mean)).eval()
    assert layer.self_attn.built_with == layer.cross_attn.built_with == (D, H, 0.25)
    assert layer.self_attn is not layer.cross_attn
    tgt, memory, mask, over = noise(N, T, D), noise(N, S, D, seed=1), causal_mask(T), coin(T, S)
    layer(tgt, memory, mask, memory_mask=over)
    assert layer.self_attn.calls[0][3] is mask
    assert layer.cross_attn.calls[0][2] is memory
    assert layer.cross_attn.calls[0][3] is over
    encoder = TransformerEncoder(TransformerEncoderLayer(D, H, F_, attention=Mean), L)
    assert {type(layer.self_attn) for layer in encoder.layers} == {Mean}


# ---------------------------------------------------------------- errors


def wrong_calls() -> Iterator[tuple[str, Callable[[], object], type[Exception], str]]:
    x, m = noise(N, T, D), noise(N, S, D, seed=1)
    enc, dec, ffn = encoder_layer(), decoder_layer(), fill(FeedForwardNetwork(D, F_))
    stack, full = TransformerDecoder(dec, L), DecoderLayerCache()
    dec(x[:, :1], m, cache=full)
    yield "ffn: width", lambda: ffn(x[..., :5]), ValueError, r"\(\.\.\., D\) with D = 12, got \(3, 4, 5\)"
    yield "ffn: ints", lambda: ffn(x.long()), TypeError, "FeedForwardNetwork: x must be a tensor of a floating dtype"
    yield "ffn: dtype", lambda: ffn(x.float()), TypeError, "x must be torch.float64 like weights, got torch.float32"
    yield "ffn: device", lambda: ffn(x.to("meta")), ValueError, "x must be on cpu like weights, got meta; move it"
    yield "ffn: inner", lambda: FeedForwardNetwork(D, 0), ValueError, "ffn_dim must be a positive whole number, got 0"
    yield "ffn: outer", lambda: FeedForwardNetwork("a", 1), TypeError, r"embed_dim must be .* got 'a' \(str\)"
    yield "ffn: drop", lambda: FeedForwardNetwork(D, F_, 2), ValueError, "dropout must be a probability from 0 to 1"
    yield (
        "ffn: name",
        lambda: FeedForwardNetwork(D, F_, activation="tanh"),
        ValueError,
        "one of 'gelu', 'relu', got 'tanh'",
    )
    yield "layer: heads", lambda: TransformerEncoderLayer(10, 4), ValueError, "multiple of num_heads = 4, got 10"
    yield "layer: name", lambda: TransformerDecoderLayer(D, H, activation=3), ValueError, "activation must be one of"
    made = MultiHeadAttention(D, H)
    yield (
        "layer: built",
        lambda: TransformerEncoderLayer(D, H, attention=made),
        TypeError,
        "the builder must be callable",
    )
    none = lambda *_: None  # noqa: E731
    yield (
        "layer: none",
        lambda: TransformerEncoderLayer(D, H, attention=none),
        TypeError,
        "returns must be an nn.Module",
    )
    yield "encoder: axes", lambda: enc(x[0]), ValueError, r"src must be .* \(any, any, 12\), got \(4, 12\)"
    yield "encoder: list", lambda: enc([1]), TypeError, "TransformerEncoderLayer: src must be a torch.Tensor, got list"
    yield "encoder: mask", lambda: enc(x, coin(T, S)), ValueError, r"src_mask .* \(T, S\) = \(4, 4\) .* got \(4, 5\)"
    yield (
        "encoder: keys",
        lambda: enc(x, src_key_mask=coin(N, S)),
        ValueError,
        r"src_key_mask .* \(3, 4\), got \(3, 5\)",
    )
    yield "encoder: pos", lambda: enc(x, pos=m), ValueError, r"pos must be .* or \(4, 12\), got \(3, 5, 12\)"
    far = torch.zeros(T, D, device="meta")
    yield (
        "encoder: far",
        lambda: enc(x, pos=far),
        ValueError,
        r"pos must be on cpu like the tokens, got meta; move .*cpu",
    )
    yield "encoder: add", lambda: enc(x, torch.full((T, T), -1e9)), ValueError, "additive mask: pass"
    yield "decoder: tgt", lambda: dec(x[..., :3], m), ValueError, r"tgt must be .* \(any, any, 12\), got \(3, 4, 3\)"
    yield "decoder: batch", lambda: dec(x, m[:2]), ValueError, r"memory must be .* \(3, any, 12\), got \(2, 5, 12\)"
    yield "decoder: memory", lambda: dec(x, None), TypeError, "memory must be a torch.Tensor, got NoneType"
    yield (
        "decoder: over",
        lambda: dec(x, m, memory_mask=coin(S, T)),
        ValueError,
        "memory_mask must be.*looks transposed",
    )
    yield "decoder: qpos", lambda: dec(x, m, query_pos=m), ValueError, "query_pos must be of shape"
    yield "decoder: mpos", lambda: dec(x, m, memory_pos=x), ValueError, "memory_pos must be of shape"
    yield "decoder: pos", lambda: dec(x, m, query_pos=3), TypeError, "query_pos must be a torch.Tensor, got int"
    yield "decoder: cache", lambda: dec(x, m, cache=DecoderCache(1)), TypeError, "a DecoderLayerCache, got DecoderCache"
    yield "decoder: other", lambda: dec(x[:, :1], x, cache=full), ValueError, "as long as the cached one, S = 5, got 4"
    yield "stack: cache", lambda: stack(x, m, cache=full), TypeError, "a DecoderCache, got DecoderLayerCache"
    yield "stack: layers", lambda: stack(x, m, cache=DecoderCache(3)), ValueError, "cache must be for 2 layers, got 3"
    yield "clone: none", lambda: clone_layers(enc, 0), ValueError, "num_layers must be a positive whole number, got 0"
    yield "clone: class", lambda: clone_layers(nn.ReLU, 2), TypeError, "layer must be an nn.Module, got type"
    yield "stack: float", lambda: TransformerEncoder(enc, 2.0), TypeError, r"num_layers must be .* got 2.0 \(float\)"


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_call_is_refused_with_what_was_expected_and_what_came(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        call()


def test_a_refused_step_leaves_the_caches_as_they_were() -> None:
    stack, cache, memory = TransformerDecoder(decoder_layer(), L), DecoderCache(L), noise(N, S, D)
    stack(noise(N, 1, D), memory, cache=cache)
    for bad in ({"tgt_mask": causal_mask(1)}, {"memory_key_mask": coin(N, T)}, {"query_pos": noise(2, D)}):
        with pytest.raises(ValueError, match="must be of shape"):
            stack(noise(N, 1, D), memory, **bad, cache=cache)
        assert {part.length for part in cache.layers} == {1}


# ---------------------------------------------------------------- initial values


def test_initial_values_are_small_normal_numbers_and_make_copied_layers_differ() -> None:
    stack = TransformerEncoder(TransformerEncoderLayer(64, H, 256, norm_first=True), L).apply(init_weights)
    words = nn.Embedding(500, 64, padding_idx=0).apply(init_weights)
    first, second = stack.layers
    assert not torch.equal(first.ffn.fc1.weight, second.ffn.fc1.weight)
    for weight in (first.ffn.fc1.weight, second.self_attn.query.weight, words.weight):
        assert weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert (first.ffn.fc1.bias == 0).all()
    assert (words.weight[0] != 0).any()  # Stanford's sweep draws the padding row too
    for norm in (stack.norm, first.norm_self):
        assert (norm.weight == 1).all()
        assert (norm.bias == 0).all()
    nn.Linear(2, 3, bias=False).apply(init_weights)  # nothing to zero, nothing to fail on
