"""Efficient layers in the place of MultiHeadAttention: what each equals, and what each refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.attention import MultiHeadAttention, causal_mask, recorded_weights
from cs_transformers.blocks import TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, init_weights
from cs_transformers.cache import KeyValueCache
from cs_transformers.efficient_layers import (
    BucketedAttention,
    ChunkedAttention,
    EfficientAttention,
    LinearAttention,
    LowRankAttention,
    RandomFeatureAttention,
    ShiftedWindowAttention,
    SlidingWindowAttention,
    alternate_shifts,
)
from cs_transformers.efficient_methods import METHODS, builder
from cs_transformers.vit import VisionTransformer

N, T, D, H = 2, 12, 10, 2
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
OPTIONS = {
    "chunked": {"chunk_size": 5},
    "linear": {},
    "random features": {"num_features": 7},
    "low rank": {"max_len": 15, "rank": 3},
    "sliding window": {"window": 3},
    "shifted window": {"grid": (3, 4), "window": 2, "shift": 1},
    "buckets": {"num_buckets": 4, "chunk_size": 4},
}
CAUSAL = [name for name in OPTIONS if METHODS[name].causal == "yes"]
PADDED = [name for name in OPTIONS if METHODS[name].masks != "none"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(name: str, dropout: float = 0.0, **changes: object) -> EfficientAttention:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return builder(name, **{**OPTIONS[name], **changes})(D, H, dropout).double().eval()


def dense(name: str, x: Tensor, mask: Tensor) -> Tensor:
    attend = MultiHeadAttention(D, H, dropout=0.0).double().eval()
    attend.load_state_dict({key: value for key, value in layer(name).state_dict().items() if key in REGULAR})
    return attend(x, x, x, mask)


REGULAR = set(MultiHeadAttention(D, H).state_dict())


def test_chunks_equal_multi_head_attention_with_the_same_state() -> None:
    plain, x, memory = MultiHeadAttention(D, H, dropout=0.0).double().eval(), draw(N, T, D), draw(N, 7, D, seed=1)
    chunked = layer("chunked")
    chunked.load_state_dict(plain.state_dict())
    mask, real = torch.rand(T, 7, generator=torch.Generator().manual_seed(0)) < 0.7, torch.ones(N, 7)
    real[1, 4:] = 0
    for options in ({}, {"attn_mask": mask}, {"key_mask": real}, {"attn_mask": mask, "key_mask": real}):
        torch.testing.assert_close(chunked(x, memory, memory, **options), plain(x, memory, memory, **options), **CLOSE)
    torch.testing.assert_close(layer("chunked", causal=True)(x, x, x), dense("chunked", x, causal_mask(T)), **CLOSE)


def test_windows_equal_multi_head_attention_with_a_mask() -> None:
    x, places = draw(N, T, D), torch.arange(T)
    near = (places[:, None] - places).abs() <= 3
    torch.testing.assert_close(layer("sliding window")(x, x, x), dense("sliding window", x, near), **CLOSE)
    rows, columns = places // 4, places % 4
    block = ((rows - 1) // 2) * 10 + (columns - 1) // 2
    together = block[:, None] == block
    torch.testing.assert_close(layer("shifted window")(x, x, x), dense("shifted window", x, together), **CLOSE)


def test_low_rank_equals_the_published_package_in_a_block() -> None:
    linformer = pytest.importorskip("linformer.linformer")
    published = linformer.LinformerSelfAttention(D, 15, k=3, heads=H).double()
    ours, x = layer("low rank", bias=False), draw(N, T, D)
    state = {"query.weight": published.to_q.weight, "key.weight": published.to_k.weight}
    state |= {"value.weight": published.to_v.weight, "proj.weight": published.to_out.weight}
    ours.load_state_dict({**state, "key_mixtures": published.proj_k, "value_mixtures": published.proj_v})
    torch.testing.assert_close(ours(x, x, x), published(x) - published.to_out.bias, **CLOSE)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_layer_takes_its_place_in_a_block_and_learns(name: str) -> None:
    block = TransformerEncoderLayer(D, H, 14, 0.0, attention=builder(name, **OPTIONS[name])).double()
    out = block(draw(N, T, D))
    assert out.shape == (N, T, D)
    out.square().sum().backward()
    for key, parameter in block.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key


@pytest.mark.parametrize("name", OPTIONS)
def test_the_weights_have_the_names_of_multi_head_attention(name: str) -> None:
    state = MultiHeadAttention(D, H).state_dict()
    missing, unexpected = layer(name).load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"projection", "key_mixtures", "value_mixtures", "rotations"}


@pytest.mark.parametrize("name", OPTIONS)
def test_each_sequence_is_treated_by_itself(name: str) -> None:
    x, attend = draw(N, T, D), layer(name)
    torch.testing.assert_close(attend(x, x, x)[1:], _alone(attend, x[1:]), **CLOSE)


def _alone(attend: EfficientAttention, x: Tensor) -> Tensor:
    return attend(x, x, x)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_future_does_not_change_the_past(name: str) -> None:
    options = {"chunk_size": T} if name == "buckets" else {}
    attend, x = layer(name, causal=True, **options), draw(N, T, D)
    before = attend(x, x, x)
    later = x.clone()
    later[:, 8:] += 1
    after = attend(later, later, later)
    torch.testing.assert_close(after[:, :8], before[:, :8], **CLOSE)
    assert (after[:, 8:] - before[:, 8:]).abs().max() > 1e-3


@pytest.mark.parametrize("name", PADDED)
def test_padding_does_not_change_the_real_tokens(name: str) -> None:
    attend, x = layer(name), draw(N, T, D)
    real = torch.ones(N, T, dtype=torch.bool)
    real[:, 9:] = False
    before = _alone(attend, x[:, :9])
    changed = x.clone()
    changed[:, 9:] = 7.0
    out = attend(changed, changed, changed, key_mask=real)
    torch.testing.assert_close(out[:, :9], before, **CLOSE)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_layer_takes_the_causal_mask_and_no_other(name: str) -> None:
    attend, x = layer(name, causal=True), draw(N, T, D)
    for mask in (causal_mask(T), causal_mask(T).float(), causal_mask(T).expand(N, T, T)):
        torch.testing.assert_close(attend(x, x, x, mask), attend(x, x, x), **CLOSE)
    if name != "chunked":
        mask = causal_mask(T)
        mask[5, 2] = False
        with pytest.raises(ValueError, match="attn_mask must be None or the causal mask, got a mask of shape"):
            attend(x, x, x, mask)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "chunked"])
def test_a_mask_that_cannot_be_honoured_is_refused(name: str) -> None:
    attend, x = layer(name), draw(N, T, D)
    with pytest.raises(ValueError, match=r"must be None: it cannot hide single pairs, .* use ChunkedAttention"):
        attend(x, x, x, torch.ones(T, T))
    with pytest.raises(ValueError, match="cannot hide single pairs"):
        TransformerEncoderLayer(D, H, 14, attention=builder(name, **OPTIONS[name])).double()(x, causal_mask(T))


def test_a_mask_of_a_wrong_shape_is_still_a_matter_of_shape() -> None:
    x = draw(N, T, D)
    with pytest.raises(ValueError, match=r"LinearAttention: attn_mask must be of shape \(T, S\)"):
        layer("linear", causal=True)(x, x, x, torch.ones(T, T + 1))
    with pytest.raises(ValueError, match=r"ChunkedAttention: key_mask must be of shape \(N, S\)"):
        layer("chunked")(x, x, x, key_mask=torch.ones(N, T + 1))


@pytest.mark.parametrize("name", ["low rank", "shifted window"])
def test_a_method_without_direction_cannot_be_built_causal(name: str) -> None:
    with pytest.raises(ValueError, match="causal must be False: it mixes all positions, got True; choose another"):
        layer(name, causal=True)


@pytest.mark.parametrize("name", ["sliding window", "shifted window", "buckets"])
def test_patterns_of_one_sequence_refuse_another_memory(name: str) -> None:
    attend, x = layer(name), draw(N, T, D)
    with pytest.raises(ValueError, match=r"the same tensor as query \(its pattern belongs to one sequence\)"):
        attend(x, draw(N, T, D, seed=1), draw(N, T, D, seed=1))


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_layer_refuses_another_memory(name: str) -> None:
    attend, x = layer(name, causal=True), draw(N, T, D)
    with pytest.raises(ValueError, match="key must be the same tensor as query"):
        attend(x, draw(N, T, D, seed=1), draw(N, T, D, seed=1))


@pytest.mark.parametrize("name", ["chunked", "linear", "random features", "low rank"])
def test_the_others_look_at_a_memory_of_another_length(name: str) -> None:
    x, memory = draw(N, T, D), draw(N, 5, D, seed=1)
    assert layer(name)(x, memory, memory).shape == (N, T, D)
    decoder = TransformerDecoderLayer(D, H, 14, 0.0, attention=builder(name, **OPTIONS[name])).double()
    assert decoder(x, memory).shape == (N, T, D)


@pytest.mark.parametrize("name", OPTIONS)
def test_weights_and_a_cache_are_refused(name: str) -> None:
    attend, x = layer(name), draw(N, T, D)
    with pytest.raises(ValueError, match="need_weights must be False: the weights are never made as a whole"):
        attend(x, x, x, need_weights=True)
    with pytest.raises(ValueError, match=r"cache must be None, got KeyValueCache; use LinearAttention\.step"):
        attend(x, x, x, cache=KeyValueCache())
    with recorded_weights(attend), pytest.raises(ValueError, match="need_weights must be False"):
        attend(x, x, x)


def test_a_grid_has_no_padding_and_one_size() -> None:
    attend, x = layer("shifted window"), draw(N, T, D)
    with pytest.raises(ValueError, match="key_mask must be None, got a mask of shape"):
        attend(x, x, x, key_mask=torch.ones(N, T))
    with pytest.raises(ValueError, match="query must be of 3 x 4 = 12 tokens, got 11"):
        _alone(attend, x[:, :11])


def test_low_rank_takes_shorter_inputs_and_names_its_length_for_longer_ones() -> None:
    attend = layer("low rank", max_len=64)
    short, full = draw(N, 63, D), draw(N, 64, D)
    padded = torch.cat((short, draw(N, 1, D, seed=1)), dim=1)
    real = torch.ones(N, 64)
    real[:, 63:] = 0
    torch.testing.assert_close(attend(padded, padded, padded, key_mask=real)[:, :63], _alone(attend, short), **CLOSE)
    assert _alone(attend, full).shape == (N, 64, D)
    with pytest.raises(ValueError, match=r"key must be at most max_len = 64 tokens, got 65; cut the input to 64"):
        _alone(attend, draw(N, 65, D))


def test_tokens_one_by_one_give_what_the_sequence_gives() -> None:
    attend, x = layer("linear", causal=True), draw(N, T, D)
    state, rows = None, []
    for token in x.split(1, dim=1):
        row, state = attend.step(token, state)
        rows.append(row)
    torch.testing.assert_close(torch.cat(rows, dim=1), attend(x, x, x), **CLOSE)
    assert [part.numel() for part in state] == [N * H * 25, N * H * 5]


def test_steps_need_a_causal_layer_and_single_tokens() -> None:
    x = draw(N, T, D)
    for attend in (layer("linear"), layer("random features", causal=True)):
        with pytest.raises(ValueError, match="must be a causal LinearAttention to go step by step"):
            attend.step(x[:, :1])
    with pytest.raises(ValueError, match="pass one token at a time"):
        layer("linear", causal=True).step(x)
    with pytest.raises(TypeError, match=r"token must be a torch\.Tensor"):
        layer("linear", causal=True).step([1])


def test_random_features_can_be_drawn_again() -> None:
    attend, x = layer("random features"), draw(N, T, D)
    before, weights = attend(x, x, x), attend.query.weight.clone()
    attend.redraw(torch.Generator().manual_seed(9))
    assert (attend(x, x, x) - before).abs().max() > 1e-3
    assert torch.equal(attend.query.weight, weights)
    assert "projection" in attend.state_dict()


def test_buckets_share_one_layer_for_queries_and_keys() -> None:
    attend = layer("buckets")
    assert attend.key is attend.query
    assert sum(p.numel() for p in attend.parameters()) == 3 * (D * D + D)
    copied = copy.deepcopy(attend)
    assert copied.key is copied.query
    stack = TransformerEncoder(TransformerEncoderLayer(D, H, 14, attention=lambda *_: attend), 2).apply(init_weights)
    assert all(block.self_attn.key is block.self_attn.query for block in stack.layers)


def test_buckets_take_the_queries_of_a_loaded_state() -> None:
    attend, source = layer("buckets"), MultiHeadAttention(D, H).double()
    attend.load_state_dict(source.state_dict(), strict=False)
    torch.testing.assert_close(attend.query.weight.double(), source.query.weight, rtol=0, atol=1e-7)


def test_the_relative_bias_counts_and_learns() -> None:
    attend, x = layer("shifted window", relative_bias=True), draw(N, T, D)
    before = attend(x, x, x)
    torch.testing.assert_close(before, layer("shifted window")(x, x, x), **CLOSE)  # it starts at zero
    nn.init.normal_(attend.offset_bias)
    after = attend(x, x, x)
    assert (after - before).abs().max() > 1e-3
    after.sum().backward()
    assert (attend.offset_bias.grad != 0).any()


def test_every_second_layer_of_a_stack_is_shifted() -> None:
    options = {"grid": (4, 4), "window": 2}
    model = VisionTransformer(
        16,
        4,
        embed_dim=8,
        num_layers=3,
        num_heads=2,
        dim_feedforward=12,
        attention=builder("shifted window", **options),
    )
    assert alternate_shifts(model) is model
    assert [block.self_attn.shift for block in model.transformer.layers] == [0, 1, 0]
    with pytest.raises(ValueError, match="model must be one with window layers, got Linear"):
        alternate_shifts(nn.Linear(2, 2))


@pytest.mark.parametrize("name", OPTIONS)
def test_dropout_acts_in_training_only(name: str) -> None:
    attend, x = layer(name, dropout=0.5), draw(N, T, D)
    assert torch.equal(attend(x, x, x), attend(x, x, x))
    torch.testing.assert_close(attend(x, x, x), layer(name)(x, x, x))
    attend.train()
    torch.manual_seed(0)
    assert not torch.equal(attend(x, x, x), attend(x, x, x))


@pytest.mark.parametrize("name", OPTIONS)
def test_other_devices_and_dtypes(name: str) -> None:
    options = OPTIONS[name]
    with torch.device("meta"):
        x = torch.zeros(N, T, D)
    attend = builder(name, **options)(D, H, 0.0).to("meta")
    assert attend(x, x, x).device.type == "meta"
    if METHODS[name].causal == "yes":
        causal = builder(name, causal=True, **options)(D, H, 0.0).to("meta")
        assert causal(x, x, x, torch.ones(T, T, device="meta")).shape == (N, T, D)
    short = layer(name).to(torch.bfloat16)
    x = draw(N, T, D).to(torch.bfloat16)
    assert short(x, x, x).dtype == torch.bfloat16


@pytest.mark.parametrize("name", OPTIONS)
def test_nothing_is_drawn_from_the_global_generator_beyond_the_layers(name: str) -> None:
    """Only parameters come from torch's generator: what is random by method has a seed of its own."""
    torch.manual_seed(0)
    first = builder(name, **OPTIONS[name])(D, H, 0.0)
    torch.manual_seed(5)
    second = builder(name, **OPTIONS[name])(D, H, 0.0)
    for key, buffer in first.named_buffers():
        assert torch.equal(buffer, dict(second.named_buffers())[key])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ChunkedAttention(D, H, chunk_size=0), "chunk_size must be a positive whole number"),
        (lambda: RandomFeatureAttention(D, H, num_features=0), "num_features must be a positive whole number"),
        (lambda: LowRankAttention(D, H, max_len=0), "max_len must be a positive whole number"),
        (lambda: LowRankAttention(D, H, max_len=4, rank=0), "rank must be a positive whole number"),
        (lambda: SlidingWindowAttention(D, H, window=-1), "window must be a whole number of at least 0"),
        (lambda: ShiftedWindowAttention(D, H, grid=(0, 4)), "grid must be a positive whole number"),
        (lambda: ShiftedWindowAttention(D, H, grid=(4, 4), window=2, shift=2), "shift must be one of 0, 1, got 2"),
        (lambda: BucketedAttention(D, H, num_buckets=3), "num_buckets must be an even number"),
        (lambda: BucketedAttention(D, H, chunk_size=0), "chunk_size must be a positive whole number"),
        (lambda: LinearAttention(D, 3), "embed_dim must be a multiple of num_heads = 3"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_common_class_is_no_method() -> None:
    x = draw(N, T, D)
    with pytest.raises(NotImplementedError, match="write attend"):
        EfficientAttention(D, H).double()(x, x, x)


@pytest.mark.learning
@pytest.mark.parametrize("name", OPTIONS)
def test_a_classifier_of_patches_learns_a_batch_with_each_method(name: str) -> None:
    options = {**OPTIONS[name], "grid": (4, 4)} if name == "shifted window" else OPTIONS[name]
    options = {**options, "max_len": 16} if name == "low rank" else options
    options = {"chunk_size": 8} if name == "chunked" else options
    torch.manual_seed(0)
    model = VisionTransformer(
        16, 4, embed_dim=32, num_layers=2, num_heads=2, dim_feedforward=48, dropout=0.0,
        positions="learned", norm_first=True, attention=builder(name, **options),
    )  # fmt: skip
    images, labels = torch.randn(24, 3, 16, 16), torch.randint(10, (24,))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(80):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model.eval()(images).argmax(1) == labels).double().mean() == 1.0
