"""Attention against torch's own, against loops, and against what must hold whatever the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.attention import (
    MultiHeadAttention,
    attention_backward,
    attention_scores,
    attention_weights,
    causal_mask,
    fused_projection,
    join_heads,
    padding_mask,
    recorded_weights,
    scaled_dot_product_attention,
    split_heads,
)
from cs_transformers.cache import KeyValueCache
from cs_transformers.numerics import gradient_check

N, T, S, H, K, D = 3, 4, 5, 2, 6, 12
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def heads(seed: int = 0, value_width: int = K) -> tuple[Tensor, Tensor, Tensor]:
    return noise(N, H, T, K, seed=seed), noise(N, H, S, K, seed=seed + 1), noise(N, H, S, value_width, seed=seed + 2)


def coin(*shape: int, seed: int = 0) -> Tensor:
    """Random mask in which every row sees at least its first key."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[..., 0] = True
    return mask


def module(num_heads: int = H, *, bias: bool = True, dropout: float = 0.0, seed: int = 7) -> MultiHeadAttention:
    made = MultiHeadAttention(D, num_heads, dropout, bias=bias).double()
    for offset, parameter in enumerate(made.parameters()):
        parameter.data = noise(*parameter.shape, seed=seed + offset) / 3
    return made


def torch_twin(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    has_bias = ours.proj.bias is not None
    twin = nn.MultiheadAttention(D, ours.n_head, bias=has_bias, batch_first=True).double()
    layers = (ours.query, ours.key, ours.value)
    twin.in_proj_weight.data = torch.cat([layer.weight.data for layer in layers])
    twin.out_proj.weight.data = ours.proj.weight.data.clone()
    if has_bias:
        twin.in_proj_bias.data = torch.cat([layer.bias.data for layer in layers])
        twin.out_proj.bias.data = ours.proj.bias.data.clone()
    return twin


def gradients(output: Tensor, *tensors: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad((output * noise(*output.shape, seed=99)).sum(), tensors, retain_graph=True))


MASKS = {
    "none": None,
    "(T, S)": coin(T, S),
    "(N, T, S)": coin(N, T, S),
    "(N, 1, T, S)": coin(N, 1, T, S),
    "(N, H, T, S)": coin(N, H, T, S),
    "(N, 1, 1, S)": coin(N, 1, 1, S),
}


def broadcast(mask: Tensor) -> Tensor:
    """Every accepted form, written out for all heads."""
    mask = mask[:, None] if mask.dim() == 3 else mask
    return mask.expand(N, H, T, S)


# ---------------------------------------------------------------- scores, weights, attention


def test_scores_are_dot_products_over_the_root_of_the_head_width() -> None:
    query, key, _ = heads()
    scores = attention_scores(query, key)
    for n in range(N):
        for t in range(T):
            for s in range(S):
                dot = sum(query[n, 1, t, k].item() * key[n, 1, s, k].item() for k in range(K))
                assert scores[n, 1, t, s].item() == pytest.approx(dot / math.sqrt(K), abs=1e-12)


def test_the_spread_of_scores_does_not_depend_on_the_width() -> None:
    for width in (4, 256):
        scores = attention_scores(noise(1, 1, 200, width), noise(1, 1, 201, width, seed=1))
        assert scores.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("form", MASKS)
def test_attention_equals_torchs_function_in_values_and_gradients(form: str) -> None:
    mask = MASKS[form]
    ours, torchs = ([x.requires_grad_() for x in heads(value_width=7)] for _ in range(2))
    out = scaled_dot_product_attention(*ours, mask)
    expected = F.scaled_dot_product_attention(*torchs, attn_mask=None if mask is None else broadcast(mask))
    torch.testing.assert_close(out, expected, **EXACT)
    for got, wanted in zip(gradients(out, *ours), gradients(expected, *torchs), strict=True):
        torch.testing.assert_close(got, wanted, **EXACT)


@pytest.mark.parametrize("form", MASKS)
def test_weights_are_a_share_of_one_and_zero_where_blocked(form: str) -> None:
    query, key, value = heads()
    out, weights = scaled_dot_product_attention(query, key, value, MASKS[form], need_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(N, H, T, dtype=torch.float64), **EXACT)
    torch.testing.assert_close(weights @ value, out, **EXACT)
    if MASKS[form] is not None:
        assert (weights[~broadcast(MASKS[form])] == 0).all()
        assert (weights[broadcast(MASKS[form])] > 0).all()


@pytest.mark.parametrize("shape", [(), (N,)], ids=["(T, K)", "(N, T, K)"])
def test_the_axes_of_batch_and_heads_may_be_missing(shape: tuple[int, ...]) -> None:
    query, key, value = noise(*shape, T, K), noise(*shape, S, K, seed=1), noise(*shape, S, K, seed=2)
    mask = coin(*shape, T, S)
    out, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(query, key, value, attn_mask=mask), **EXACT)
    assert weights.shape == (*shape, T, S)


def test_permuting_keys_together_with_values_changes_nothing() -> None:
    query, key, value = heads()
    order, mask = torch.tensor([3, 0, 4, 2, 1]), coin(T, S)
    shuffled = scaled_dot_product_attention(query, key[:, :, order], value[:, :, order], mask[:, order])
    torch.testing.assert_close(shuffled, scaled_dot_product_attention(query, key, value, mask), **EXACT)


def test_a_row_that_may_see_nothing_gets_zeros_and_finite_gradients() -> None:
    mask = coin(T, S)
    mask[2] = False
    tensors = [x.requires_grad_() for x in heads()]
    out, weights = scaled_dot_product_attention(*tensors, mask, need_weights=True)
    assert (weights[:, :, 2] == 0).all()
    assert (out[:, :, 2] == 0).all()
    for gradient in gradients(out, *tensors):
        assert gradient.isfinite().all()
    assert (gradients(out, tensors[0])[0][:, :, 2] == 0).all()


def test_a_blocked_score_gets_a_gradient_of_exactly_zero() -> None:
    scores, mask = noise(N, H, T, S).requires_grad_(), coin(T, S)
    (gradient,) = gradients(attention_weights(scores, mask), scores)
    assert (gradient[:, :, ~mask] == 0).all()
    assert (gradient[:, :, mask] != 0).any()


def test_blocked_means_blocked_however_low_the_other_scores() -> None:
    scores = torch.tensor([[-3e9, 0.0]])
    assert attention_weights(scores, torch.tensor([[1, 0]])).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64])
def test_a_mask_of_any_dtype_means_the_same(dtype: torch.dtype) -> None:
    query, key, value = heads()
    expected = scaled_dot_product_attention(query, key, value, coin(T, S))
    assert torch.equal(scaled_dot_product_attention(query, key, value, coin(T, S).to(dtype)), expected)


def test_dropout_acts_on_the_weights_and_the_returned_weights_do_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = heads(
        value_width=S
    )  # as wide as there are keys, so that a factor fits before and after the mix
    seen: list[float] = []
    factor = noise(N, H, T, S, seed=5)

    def dropout(x: Tensor, p: float = 0.5, *_: object, **__: object) -> Tensor:
        seen.append(p)
        return x * factor

    monkeypatch.setattr(F, "dropout", dropout)
    out, weights = scaled_dot_product_attention(query, key, value, None, 0.3, need_weights=True)
    monkeypatch.undo()
    torch.testing.assert_close(weights, attention_weights(attention_scores(query, key)), **EXACT)
    torch.testing.assert_close(out, (weights * factor) @ value, **EXACT)
    assert seen == [0.3]


def test_without_dropout_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    scaled_dot_product_attention(*heads(), causal_mask(T, S), 0.0)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_huge_scores_in_half_precision_neither_overflow_nor_leak(dtype: torch.dtype) -> None:
    query, key = torch.full((1, 1, T, 16), 300.0, dtype=dtype), torch.full((1, 1, S, 16), 49.0, dtype=dtype)
    key[:, :, 1] *= -1  # scores of +-58800, near the largest float16; their sum before the division is beyond it
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[:, 0] = False
    scores = attention_scores(query, key)
    assert scores.isfinite().all()
    assert scores.abs().max() > 5e4
    weights = attention_weights(scores, mask)
    assert weights.dtype == dtype
    assert weights.isfinite().all()
    assert (weights[..., 0] == 0).all()
    alone = torch.tensor([False, True, False, False, False]).expand(T, S)  # the lowest score alone is allowed
    assert attention_weights(scores, alone)[0, 0].tolist() == alone.to(dtype).tolist()


# ---------------------------------------------------------------- backward by hand


@pytest.mark.parametrize("form", MASKS)
def test_the_backward_by_hand_equals_autograd(form: str) -> None:
    tensors = [x.requires_grad_() for x in heads(value_width=7)]
    grad_output = noise(N, H, T, 7, seed=99)
    expected = gradients(scaled_dot_product_attention(*tensors, MASKS[form]), *tensors)
    for got, wanted in zip(attention_backward(grad_output, *tensors, MASKS[form]), expected, strict=True):
        torch.testing.assert_close(got, wanted, **EXACT)


def test_the_backward_by_hand_passes_central_differences_also_with_a_dead_row() -> None:
    mask = coin(T, S)
    mask[1] = False
    assert gradient_check(scaled_dot_product_attention, [*heads(), mask], gradients=attention_backward) < 1e-6


@pytest.mark.parametrize("fault", ["factor 2", "no scale", "no row term"])
def test_a_wrong_backward_is_caught(fault: str) -> None:
    def wrong(grad_output: Tensor, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, dv = attention_backward(grad_output, query, key, value)
        if fault == "factor 2":
            return dq, 2 * dk, dv
        if fault == "no scale":
            return dq * math.sqrt(K), dk, dv
        weights = attention_weights(attention_scores(query, key))
        return (weights * (grad_output @ value.transpose(-2, -1))) @ key / math.sqrt(K), dk, dv

    assert gradient_check(scaled_dot_product_attention, heads(), gradients=wrong) > 1e-2


# ---------------------------------------------------------------- masks and heads


def test_the_causal_mask_hides_the_future_and_nothing_else() -> None:
    mask = causal_mask(T)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[s <= t for s in range(T)] for t in range(T)]


def test_with_more_keys_than_queries_the_queries_are_the_last_tokens() -> None:
    assert torch.equal(causal_mask(T, 9), causal_mask(9)[-T:])
    assert causal_mask(1, 6).all()
    assert causal_mask(3, 2).tolist() == [[False, False], [True, False], [True, True]]


def test_the_causal_mask_is_made_where_it_is_asked_for() -> None:
    assert causal_mask(3, device="meta").device.type == "meta"


def test_the_padding_mask_marks_the_real_tokens() -> None:
    assert padding_mask(torch.tensor([2, 0, 3]), 4).tolist() == [
        [True, True, False, False],
        [False, False, False, False],
        [True, True, True, False],
    ]
    assert padding_mask(torch.tensor([1, 3])).shape == (2, 3)
    assert padding_mask(torch.zeros(2, dtype=torch.int64, device="meta"), 3).device.type == "meta"


def test_head_h_holds_its_own_columns_and_joining_is_the_way_back() -> None:
    x = noise(N, T, D)
    split = split_heads(x, H)
    assert split.shape == (N, H, T, K)
    for head in range(H):
        assert torch.equal(split[:, head], x[..., head * K : (head + 1) * K])
    assert torch.equal(join_heads(split), x)


# ---------------------------------------------------------------- projections


@pytest.mark.parametrize("bias", [True, False])
def test_the_fused_product_equals_one_product_per_layer(bias: bool) -> None:
    layers = [nn.Linear(D, width, bias=bias).double() for width in (4, 7, 9)]
    x = noise(N, S, D)
    fused = fused_projection(x, layers)
    for got, layer in zip(fused, layers, strict=True):
        torch.testing.assert_close(got, layer(x), rtol=1e-12, atol=1e-12)
    wanted = [p for layer in layers for p in layer.parameters()]
    separate = gradients(torch.cat([layer(x) for layer in layers], -1), *wanted)
    for got, expected in zip(gradients(torch.cat(fused, -1), *wanted), separate, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_the_three_projection_paths_agree_in_values_and_gradients(masked: bool, need_weights: bool) -> None:
    attend, mask = module(), coin(T, T) if masked else None
    results = []
    for query, key, value in (
        (x := noise(N, T, D).requires_grad_(), x, x),
        (x2 := noise(N, T, D).requires_grad_(), kv := x2.clone(), kv),
        (x3 := noise(N, T, D).requires_grad_(), x3.clone(), x3.clone()),
    ):
        out = attend(query, key, value, mask, need_weights=need_weights)
        out = out[0] if need_weights else out
        results.append([out, *gradients(out, query, *attend.parameters())])
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("pattern", "products"), [("q is k is v", 1), ("k is v", 2), ("all differ", 3)], ids=["QKV", "KV", "general"]
)
def test_inputs_that_are_one_tensor_share_one_product(
    pattern: str, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend, x = module(), noise(N, T, D)
    other = x.clone()
    query, key, value = {"q is k is v": (x, x, x), "k is v": (x, other, other)}.get(pattern, (x, other, x.clone()))
    calls, linear = [], F.linear

    def counted(*args: Tensor) -> Tensor:
        calls.append(args)
        return linear(*args)

    monkeypatch.setattr(F, "linear", counted)
    attend(query, key, value)
    assert len(calls) == products + 1  # and the output projection


def test_a_layer_that_is_watched_or_replaced_is_called_by_itself() -> None:
    attend, x = module(), noise(N, T, D)
    expected, seen = attend(x, x, x), []
    handle = attend.key.register_forward_hook(lambda *_: seen.append("key"))
    torch.testing.assert_close(attend(x, x, x), expected, **EXACT)
    assert seen == ["key"]
    handle.remove()
    handle = attend.value.register_full_backward_hook(lambda *_: seen.append("back"))
    leaf = noise(N, T, D).requires_grad_()
    attend(leaf, leaf, leaf).sum().backward()
    assert seen == ["key", "back"]
    handle.remove()

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    half = Doubled(D, D).double()
    half.load_state_dict({name: p / 2 for name, p in attend.value.state_dict().items()})
    attend.value = half
    torch.testing.assert_close(attend(x, x, x), expected, **EXACT)


def test_a_key_layer_without_a_bias_changes_no_weight() -> None:
    """A shift common to all keys cancels in the softmax, which is why some models leave this bias out."""
    attend, x = module(), noise(N, T, D)
    expected = attend(x, x, x)
    attend.key.bias = None
    torch.testing.assert_close(attend(x, x, x), expected, **EXACT)


# ---------------------------------------------------------------- the module


@pytest.mark.parametrize("num_heads", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["none", "(T, S)", "(N, H, T, S)", "key_mask"])
def test_the_module_equals_torchs_module_with_copied_weights(num_heads: int, bias: bool, form: str) -> None:
    ours = module(num_heads, bias=bias)
    twin = torch_twin(ours)
    masks = {"(T, S)": coin(T, S), "(N, H, T, S)": coin(N, num_heads, T, S)}
    mask = masks.get(form)
    key_mask = coin(N, S) if form == "key_mask" else None
    blocked = None if mask is None else ~mask.reshape(-1, T, S) if mask.dim() == 4 else ~mask
    inputs, copies = ([noise(N, T, D), noise(N, S, D, seed=1), noise(N, S, D, seed=2)] for _ in range(2))
    for tensor in (*inputs, *copies):
        tensor.requires_grad_()
    out, weights = ours(*inputs, mask, key_mask=key_mask, need_weights=True)
    expected, expected_weights = twin(
        *copies,
        attn_mask=blocked,
        key_padding_mask=None if key_mask is None else ~key_mask,
        average_attn_weights=False,
    )
    torch.testing.assert_close(out, expected, **EXACT)
    torch.testing.assert_close(weights, expected_weights, **EXACT)
    torch.testing.assert_close(ours(*inputs, mask, key_mask=key_mask), expected, **EXACT)
    got = gradients(ours(*inputs, mask, key_mask=key_mask), *inputs, ours.query.weight, ours.key.weight)
    wanted = gradients(expected, *copies, twin.in_proj_weight)
    for one, other in zip(got[:3], wanted[:3], strict=True):
        torch.testing.assert_close(one, other, **EXACT)
    torch.testing.assert_close(torch.cat(got[3:]), wanted[3][: 2 * D], **EXACT)


def dead_row_mask() -> Tensor:
    mask = coin(T, S)
    mask[2] = False
    return mask


def test_the_fused_kernel_gives_what_the_written_out_attention_gives() -> None:
    attend = module()
    for mask, key_mask in ((None, None), (coin(T, S), coin(N, S)), (dead_row_mask(), None), (None, coin(N, S))):
        results = []
        for need_weights in (False, True):
            inputs = [noise(N, T, D), noise(N, S, D, seed=1), noise(N, S, D, seed=2)]
            for tensor in inputs:
                tensor.requires_grad_()
            out = attend(*inputs, mask, key_mask=key_mask, need_weights=need_weights)
            out = out[0] if need_weights else out
            results.append([out, *gradients(out, *inputs, *attend.parameters())])
        for fast, slow in zip(*results, strict=True):
            assert fast.isfinite().all()
            torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_fused_kernel_runs_just_when_nobody_asks_for_weights(
    need_weights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kernel = [], F.scaled_dot_product_attention

    def counted(*args: Tensor, **kwargs: object) -> Tensor:
        calls.append(kwargs)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    x = noise(N, T, D)
    module(dropout=0.5).train()(x, x, x, causal_mask(T), need_weights=need_weights)
    assert [call["dropout_p"] for call in calls] == ([] if need_weights else [0.5])


def test_no_kernel_is_given_a_row_that_may_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of other devices make NaN or a mean of such a row."""
    given, kernel = [], F.scaled_dot_product_attention

    def watched(*args: Tensor, attn_mask: Tensor, **kwargs: object) -> Tensor:
        given.append(attn_mask)
        return kernel(*args, attn_mask=attn_mask, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    module()(noise(N, T, D), noise(N, S, D), noise(N, S, D), dead_row_mask())
    assert [mask.any(-1).all().item() for mask in given] == [True]


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_fully_masked_row_gives_the_output_bias_and_finite_gradients(need_weights: bool) -> None:
    attend, x = module(), noise(N, T, D).requires_grad_()
    mask = causal_mask(T)
    mask[2] = False
    out = attend(x, x, x, mask.float(), need_weights=need_weights)
    out, weights = out if need_weights else (out, torch.zeros(N, H, T, T))
    torch.testing.assert_close(out[:, 2], attend.proj.bias.expand(N, D), **EXACT)
    assert (weights[:, :, 2] == 0).all()
    for gradient in gradients(out[:, :2], x, *attend.parameters()):
        assert gradient.isfinite().all()


def test_a_sequence_of_padding_alone_does_no_harm() -> None:
    attend, x = module(), noise(N, T, D).requires_grad_()
    key_mask = torch.ones(N, T)
    key_mask[1] = 0
    out = attend(x, x, x, key_mask=key_mask)
    assert (out[1] == attend.proj.bias).all()
    assert all(gradient.isfinite().all() for gradient in gradients(out, x, *attend.parameters()))


def test_a_key_that_is_padding_influences_nothing() -> None:
    attend, query, memory = module(), noise(N, T, D), noise(N, S, D, seed=1)
    key_mask = coin(N, S)
    changed = memory + 7 * (~key_mask)[..., None]
    before, after = (attend(query, each, each, key_mask=key_mask) for each in (memory, changed))
    assert torch.equal(before, after)
    assert not torch.equal(attend(query, memory, memory), attend(query, changed, changed))


def test_both_masks_must_allow_a_key() -> None:
    attend, query, memory = module(), noise(N, T, D), noise(N, S, D, seed=1)
    mask, key_mask = coin(T, S), coin(N, S, seed=3)
    both = mask & key_mask[:, None, :]
    torch.testing.assert_close(
        attend(query, memory, memory, mask, key_mask=key_mask), attend(query, memory, memory, both), **EXACT
    )


def test_permuting_the_tokens_permutes_the_output() -> None:
    attend, x, order = module(), noise(N, T, D), torch.tensor([2, 0, 3, 1])
    shuffled = x[:, order]
    torch.testing.assert_close(attend(shuffled, shuffled, shuffled), attend(x, x, x)[:, order], **EXACT)


@pytest.mark.parametrize("shape", ["permuted", "expanded", "strided"])
def test_memory_layout_makes_no_difference(shape: str) -> None:
    x = {
        "permuted": noise(D, T, N).permute(2, 1, 0),
        "expanded": noise(1, T, D).expand(N, T, D),
        "strided": noise(N, 2 * T, D)[:, ::2],
    }[shape]
    attend = module()
    for need_weights in (False, True):
        torch.testing.assert_close(
            attend(x, x, x, need_weights=need_weights),
            attend(*[x.contiguous()] * 3, need_weights=need_weights),
            **EXACT,
        )


def test_the_module_passes_central_differences_parameters_included() -> None:
    inputs = [noise(2, 3, D), noise(2, S, D, seed=1), noise(2, S, D, seed=2), coin(3, S)]
    assert gradient_check(module(dropout=0.4).train(), inputs) < 1e-6
    attend = module()
    assert gradient_check(lambda x: attend(x, x, x, causal_mask(3)), noise(2, 3, D)) < 1e-6


def test_the_parameters_are_four_linear_layers_in_the_published_order() -> None:
    names = [f"{layer}.{kind}" for layer in ("key", "query", "value", "proj") for kind in ("weight", "bias")]
    attend = MultiHeadAttention(D, H)
    assert list(attend.state_dict()) == names
    assert [name for name, _ in attend.named_children()] == ["key", "query", "value", "proj", "attn_drop"]
    assert (attend.n_head, attend.emd_dim, attend.head_dim, attend.attn_drop.p) == (H, D, K, 0.1)
    assert list(MultiHeadAttention(D, H, bias=False).state_dict()) == names[::2]


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_sets_weights_to_zero_and_scales_the_others(need_weights: bool) -> None:
    width = 2 * S
    attend = MultiHeadAttention(width, 1, dropout=0.5).double().train()
    eye = torch.eye(width, dtype=torch.float64)
    for layer in (attend.value, attend.proj):  # with identities around it, the output shows the weights in use, twice
        layer.weight.data, layer.bias.data = eye, torch.zeros(width, dtype=torch.float64)
    query, key = noise(N, T, width), noise(N, S, width, seed=1)
    value = torch.cat((eye[:S, :S], eye[:S, :S]), -1).expand(N, S, width)
    torch.manual_seed(0)
    answer = attend(query, key, value, need_weights=need_weights)
    used = answer[0] if need_weights else answer
    _, weights = attend.eval()(query, key, value, need_weights=True)
    weights = weights[:, 0]
    assert torch.equal(used[..., :S], used[..., S:])  # weights were dropped, not outputs
    used = used[..., :S]
    kept = used != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(used[kept], 2 * weights[kept], **EXACT)
    if need_weights:
        torch.testing.assert_close(answer[1][:, 0], weights, **EXACT)


def test_eval_is_deterministic_and_leaves_the_generator_alone_train_is_not() -> None:
    attend, x = module(dropout=0.5).eval(), noise(N, T, D)
    before = torch.random.get_rng_state()
    for need_weights in (False, True):
        first, second = (attend(x, x, x, need_weights=need_weights) for _ in range(2))
        torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert torch.equal(torch.random.get_rng_state(), before)
    attend.train()
    for need_weights in (False, True):
        first, second = (attend(x, x, x, need_weights=need_weights) for _ in range(2))
        assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("need_weights", [False, True])
def test_low_precision_works_and_stays_near_float32(dtype: torch.dtype, need_weights: bool) -> None:
    attend, x, mask = module().float(), noise(N, T, D, dtype=torch.float32), causal_mask(T)
    mask[2] = False
    expected = attend(x, x, x, mask)
    low = x.to(dtype)
    out = attend.to(dtype)(low, low, low, mask, need_weights=need_weights)
    out = out[0] if need_weights else out
    assert out.dtype == dtype
    assert (out.float() - expected).abs().max() < (5e-2 if dtype == torch.bfloat16 else 1e-2)
    out.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in attend.parameters())


def test_autocast_runs_with_and_without_weights() -> None:
    attend, x = module().float(), noise(N, T, D, dtype=torch.float32)
    expected = attend(x, x, x, causal_mask(T))
    with torch.autocast("cpu", torch.bfloat16):
        for out in (attend(x, x, x, causal_mask(T)), attend(x, x, x, causal_mask(T), need_weights=True)[0]):
            assert (out.float() - expected).abs().max() < 5e-2


def test_nothing_is_made_on_a_device_other_than_the_inputs() -> None:
    """The meta device stands in for an accelerator: whatever is made elsewhere meets it with an error."""
    attend, x = MultiHeadAttention(D, H).to("meta"), torch.zeros(N, T, D, device="meta")
    additive = torch.full((T, T), -torch.inf, device="meta")  # values cannot be looked at
    for mask in (None, causal_mask(T, device="meta"), causal_mask(T), additive):
        out, weights = attend(x, x, x, mask, key_mask=torch.ones(N, T, device="meta"), need_weights=True)
        assert (out.device.type, out.shape, weights.shape) == ("meta", (N, T, D), (N, H, T, T))
        assert attend(x, x, x, mask).shape == (N, T, D)
    q = torch.zeros(N, H, T, K, device="meta")
    assert [g.device.type for g in attention_backward(q, q, q, q, causal_mask(T))] == ["meta"] * 3


def test_no_keys_at_all_gives_the_output_bias() -> None:
    attend, x, empty = module(), noise(N, T, D), torch.zeros(N, 0, D, dtype=torch.float64)
    for need_weights in (False, True):
        out = attend(x, empty, empty, need_weights=need_weights)
        out = out[0] if need_weights else out
        torch.testing.assert_close(out, attend.proj.bias.expand(N, T, D), **EXACT)


# ---------------------------------------------------------------- cache


@pytest.mark.parametrize("steps", [(1, 1, 1, 1), (2, 1, 1), (3, 1)])
@pytest.mark.parametrize("need_weights", [False, True])
def test_reading_step_by_step_gives_what_reading_at_once_gives(steps: tuple[int, ...], need_weights: bool) -> None:
    attend, x, key_mask = module(), noise(N, T, D), coin(N, T)
    expected = attend(x, x, x, causal_mask(T), key_mask=key_mask)
    cache, outputs, position = KeyValueCache(), [], 0
    for width in steps:
        new = x[:, position : position + width]
        position += width
        mask, seen = causal_mask(width, position), key_mask[:, :position]
        out = attend(new, new, new, mask, key_mask=seen, need_weights=need_weights, cache=cache)
        outputs.append(out[0] if need_weights else out)
        assert cache.length == position
    torch.testing.assert_close(torch.cat(outputs, 1), expected, **EXACT)


def test_a_refused_call_leaves_the_cache_as_it_was() -> None:
    attend, x, cache = module(), noise(N, T, D), KeyValueCache()
    attend(x, x, x, cache=cache)
    key = cache.key
    with pytest.raises(ValueError, match=r"attn_mask must be of shape \(T, S\) = \(1, 5\)"):
        attend(x[:, :1], x[:, :1], x[:, :1], causal_mask(1), cache=cache)
    with pytest.raises(ValueError, match=r"cache.key must be .* = \(2, 2, any, 6\), got \(3, 2, 4, 6\)"):
        attend(x[:2], x[:2], x[:2], cache=cache)
    with pytest.raises(TypeError, match="cache must be a KeyValueCache, got dict"):
        attend(x, x, x, cache={})
    assert cache.key is key


# ---------------------------------------------------------------- looking inside


def test_recorded_weights_are_those_of_every_layer_and_the_model_answers_as_before() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = module(), module(seed=30)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.second(self.first(x, x, x, causal_mask(T)), x, x, need_weights=True)

    model, x = Pair(), noise(N, T, D)
    out, weights = model(x)
    with recorded_weights(model) as record:
        watched_out, watched_weights = model(x)
        model(x)
    torch.testing.assert_close((watched_out, watched_weights), (out, weights), **EXACT)
    assert {name: len(seen) for name, seen in record.items()} == {"first": 2, "second": 2}
    torch.testing.assert_close(record["second"][0], weights, **EXACT)
    assert (record["first"][0][:, :, ~causal_mask(T)] == 0).all()
    model(x)
    assert len(record["first"]) == 2  # nobody watches any more


def test_watching_ends_even_when_the_model_fails() -> None:
    attend = module()
    with pytest.raises(ValueError, match="query must be of shape"), recorded_weights(attend):
        attend(noise(N, D), noise(N, D), noise(N, D))
    assert isinstance(attend(*[noise(N, T, D)] * 3), Tensor)


def test_recorded_weights_says_when_there_is_nothing_to_watch() -> None:
    with (
        pytest.raises(ValueError, match="model must be one with attention layers, got Linear"),
        recorded_weights(nn.Linear(2, 2)),
    ):
        pass
    with pytest.raises(TypeError, match=r"model must be an nn.Module, got str"), recorded_weights("model"):
        pass


# ---------------------------------------------------------------- errors


def wrong_calls() -> Iterator[tuple[str, Callable[[], object], type[Exception], str]]:
    q, k, v = heads()
    x, m = noise(N, T, D), noise(N, S, D, seed=1)
    attend, sdpa = module(), scaled_dot_product_attention
    ints = torch.zeros(N, T, D, dtype=torch.int64)
    yield "scores: list", lambda: attention_scores([1], k), TypeError, "query must be a torch.Tensor, got list"
    yield "scores: ints", lambda: attention_scores(q.long(), k), TypeError, "floating dtype, got torch.int64"
    yield "scores: width", lambda: attention_scores(q, k[..., :3]), ValueError, r"\(3, 2, S, 6\) like query, got \(3, 2"
    yield "scores: heads", lambda: attention_scores(q, k[:, :1]), ValueError, "batch, heads and width of the queries"
    yield "scores: axes", lambda: attention_scores(q[0, 0, 0], k), ValueError, r"\(N, H, T, K\), got \(6,\)"
    yield "scores: dtype", lambda: attention_scores(q, k.float()), TypeError, "torch.float64 like query, got torch.floa"
    yield "scores: device", lambda: attention_scores(q, k.to("meta")), ValueError, "key must be on cpu like query, got"
    yield "weights: axes", lambda: attention_weights(q[0, 0, 0]), ValueError, r"scores must be of shape \(N, H, T, S\)"
    yield (
        "weights: mask",
        lambda: attention_weights(q @ q.mT, [[1]]),
        TypeError,
        "mask must be a torch.Tensor, got list",
    )
    yield "sdpa: value", lambda: sdpa(q, k, v[:, :, :3]), ValueError, r"\(3, 2, 5, K\) like key, got \(3, 2, 3, 6\)"
    yield "sdpa: dropout", lambda: sdpa(q, k, v, None, 1.5), ValueError, "dropout_p must be a probability from 0 to 1"
    yield "sdpa: module", lambda: sdpa(q, k, v, None, nn.Dropout()), TypeError, r"got Dropout\(p=0.5, .* pass a float"
    yield "sdpa: mask", lambda: sdpa(q, k, v, coin(S, T)), ValueError, "scaled_dot_product_attention: mask must be of"
    yield "backward: mask", lambda: attention_backward(q, q, k, v, coin(S, T)), ValueError, "attention_backward: mask"
    yield "backward: grad", lambda: attention_backward(v, q, k, v), ValueError, r"\(3, 2, 4, 6\), got \(3, 2, 5, 6\)"
    yield "causal: zero", lambda: causal_mask(0), ValueError, "target_length must be a positive whole number, got 0"
    yield "causal: float", lambda: causal_mask(2.0), TypeError, r"got 2.0 \(float\)"
    yield "causal: source", lambda: causal_mask(2, -1), ValueError, "source_length must be a positive whole number"
    yield "padding: float", lambda: padding_mask(torch.ones(2)), TypeError, "lengths must be whole numbers"
    yield "padding: axes", lambda: padding_mask(torch.ones(2, 2).long()), ValueError, r"shape \(N\) = \(any\)"
    yield "padding: long", lambda: padding_mask(torch.tensor([4]), 3), ValueError, r"from 0 to 3, got \[4\]"
    yield "split: axes", lambda: split_heads(q, H), ValueError, r"\(N, T, D\) = \(any, any, any\), got \(3, 2, 4, 6\)"
    yield (
        "split: heads",
        lambda: split_heads(x, 5),
        ValueError,
        "multiple of num_heads = 5, got 12; use a width of 10 or",
    )
    yield "join: axes", lambda: join_heads(x), ValueError, r"\(N, H, T, K\) = .* got \(3, 4, 12\)"
    yield "fused: none", lambda: fused_projection(x, []), TypeError, "layers must be one or more nn.Linear, got"
    yield "fused: kind", lambda: fused_projection(x, [nn.ReLU()]), TypeError, r"got \['ReLU'\]"
    yield "fused: input", lambda: fused_projection(m, [nn.Linear(3, 3)]), ValueError, r"\(any, any, 3\), got \(3, 5, 12"
    mixed = [nn.Linear(D, D).double(), nn.Linear(D, D, bias=False).double()]
    yield "fused: bias", lambda: fused_projection(x, mixed), ValueError, "all with or all without a bias"
    yield "module: heads", lambda: MultiHeadAttention(10, 4), ValueError, "a multiple of num_heads = 4, got 10; use"
    yield (
        "module: zero",
        lambda: MultiHeadAttention(8, 0),
        ValueError,
        "num_heads must be a positive whole number, got 0",
    )
    yield "module: bool", lambda: MultiHeadAttention(8, True), TypeError, r"num_heads must be .* got True \(bool\)"
    yield "module: width", lambda: MultiHeadAttention(-8, 2), ValueError, "embed_dim must be a positive whole number"
    yield (
        "module: drop",
        lambda: MultiHeadAttention(8, 2, -0.1),
        ValueError,
        "dropout must be a probability from 0 to 1",
    )
    yield "call: list", lambda: attend([1], m, m), TypeError, "MultiHeadAttention: query must be a torch.Tensor"
    yield "call: ints", lambda: attend(ints, ints, ints), TypeError, "token ids go through an embedding first"
    yield "call: axes", lambda: attend(x[0], m, m), ValueError, r"query must be .* \(any, any, 12\), got \(4, 12\)"
    yield "call: width", lambda: attend(x[..., :8], m, m), ValueError, r"\(any, any, 12\), got \(3, 4, 8\)"
    yield "call: batch", lambda: attend(x, m[:2], m[:2]), ValueError, r"key must be .* \(3, any, 12\), got \(2, 5, 12\)"
    yield "call: value", lambda: attend(x, m, x), ValueError, r"value must be .* \(3, 5, 12\), got \(3, 4, 12\); value"
    yield (
        "call: dtype",
        lambda: attend(*[x.float()] * 3),
        TypeError,
        "query must be torch.float64 like weights, got torch.float32",
    )
    meta = x.to("meta")
    yield (
        "call: device",
        lambda: attend(meta, meta, meta),
        ValueError,
        "query must be on cpu like weights, got meta; mo",
    )
    yield "call: mixed", lambda: attend(x, m.float(), m), TypeError, "key must be torch.float64 like query"
    yield (
        "call: mask",
        lambda: attend(x, m, m, coin(S, T)),
        ValueError,
        r"\(T, S\) = \(4, 5\).* got \(5, 4\).*transposed",
    )
    yield "call: per head", lambda: attend(x, m, m, coin(H, T, S)), ValueError, "never mean one mask per head"
    yield "call: keys", lambda: attend(x, m, m, key_mask=coin(N, T)), ValueError, r"\(N, S\) = \(3, 5\), got \(3, 4\)"
    additive = torch.zeros(T, S).masked_fill(~coin(T, S), -torch.inf)
    yield (
        "call: -inf",
        lambda: attend(x, m, m, additive),
        ValueError,
        "nonzero or True where a query may attend.*additive",
    )


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_call_is_refused_with_what_was_expected_and_what_came(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        call()
