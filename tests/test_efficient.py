"""Chunked, linear, random-feature and low-rank attention against torch, dense forms and the published packages."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cs_transformers.attention import causal_mask
from cs_transformers.efficient import (
    causal_linear_attention,
    chunked_attention,
    fit_exponent,
    linear_attention,
    linear_attention_step,
    linear_state,
    log_random_features,
    low_rank_attention,
    online_softmax_step,
    orthogonal_projection,
    positive_features,
    random_features,
    recurrent_linear_attention,
)
from cs_transformers.numerics import gradient_check

N, H, T, S, K, V, M, R = 2, 3, 7, 11, 4, 5, 6, 3
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def heads(length: int = T, sources: int = S) -> tuple[Tensor, Tensor, Tensor]:
    return draw(N, H, length, K), draw(N, H, sources, K, seed=1), draw(N, H, sources, V, seed=2)


def random_mask(*shape: int, seed: int = 0, share: float = 0.6) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < share


def gradients(output: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    weights = torch.cos(torch.arange(output.numel(), dtype=output.dtype)).view_as(output)
    return torch.autograd.grad((output * weights).sum(), inputs, retain_graph=True)


def same(left: Tensor, right: Tensor, inputs: tuple[Tensor, ...], **tolerance: float) -> None:
    torch.testing.assert_close(left, right, **(tolerance or CLOSE))
    for ours, theirs in zip(gradients(left, *inputs), gradients(right, *inputs), strict=True):
        torch.testing.assert_close(ours, theirs, **(tolerance or CLOSE))


def alive(mask: Tensor) -> Tensor:
    """Let each query see at least its first key, since torch's kernels differ on dead rows."""
    mask = mask.clone()
    mask[..., 0] = True
    return mask


# --- one step of the online softmax


def empty_state(rows: int = T, width: int = V) -> tuple[Tensor, Tensor, Tensor]:
    zeros = torch.zeros(N, H, rows, 1, dtype=torch.float64)
    return torch.zeros(N, H, rows, width, dtype=torch.float64), torch.full_like(zeros, -torch.inf), zeros


@pytest.mark.parametrize("sizes", [[S], [1] * S, [4, 4, 3], [2, 9]])
def test_steps_over_any_blocks_give_the_softmax_of_the_whole(sizes: list[int]) -> None:
    scores, value = 30 * draw(N, H, T, S), draw(N, H, S, V, seed=1)
    state = empty_state()
    for part, rows in zip(scores.split(sizes, -1), value.split(sizes, -2), strict=True):
        state = online_softmax_step(state, part, rows)
    mixed, top, total = state
    same(mixed / total, scores.softmax(-1) @ value, (scores, value))
    torch.testing.assert_close(top, scores.amax(-1, keepdim=True))
    torch.testing.assert_close(top + total.log(), scores.logsumexp(-1, keepdim=True), **CLOSE)


def test_scores_far_beyond_the_range_of_exp_do_no_harm() -> None:
    scores = torch.tensor([900.0, -900.0, 901.0, 0.0], dtype=torch.float64).view(1, 1, 1, 4)
    value = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).view(1, 1, 4, 1)
    zeros = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    state = (zeros, zeros - torch.inf, zeros)
    for index in range(4):
        state = online_softmax_step(state, scores[..., index : index + 1], value[..., index : index + 1, :])
    expected = (1 * math.exp(-1) + 3) / (1 + math.exp(-1))
    assert (state[0] / state[2]).item() == pytest.approx(expected, rel=1e-12)


def test_a_query_that_has_seen_nothing_keeps_the_empty_state_and_finite_gradients() -> None:
    scores, value = draw(N, H, T, 3), draw(N, H, 3, V, seed=1)
    blocked = torch.zeros(T, 3, dtype=torch.bool)
    blocked[2] = True
    mixed, top, total = online_softmax_step(empty_state(), scores.masked_fill(blocked, -torch.inf), value)
    assert (mixed[:, :, 2] == 0).all()
    assert (top[:, :, 2] == -torch.inf).all()
    assert (total[:, :, 2] == 0).all()
    for gradient in gradients(mixed, scores, value):
        assert gradient.isfinite().all()
    later = online_softmax_step((mixed, top, total), scores, value)
    expected = scores[:, :, 2].softmax(-1).unsqueeze(-2) @ value
    torch.testing.assert_close((later[0] / later[2])[:, :, 2], expected.squeeze(-2), **CLOSE)


def test_dropout_takes_weights_from_the_values_and_leaves_the_sum_whole() -> None:
    scores, value = torch.zeros(1, 1, 1, 4000), torch.ones(1, 1, 4000, 1)
    zeros = torch.zeros(1, 1, 1, 1)
    torch.manual_seed(0)
    mixed, _, total = online_softmax_step((zeros, zeros - torch.inf, zeros), scores, value, dropout_p=0.5)
    assert total.item() == 4000
    assert mixed.item() != 4000
    assert mixed.item() == pytest.approx(4000, rel=0.1)
    assert mixed.item() % 2 == 0  # those that are kept count twice


# --- chunked attention


MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "one for all": lambda: alive(random_mask(T, S)),
    "per sequence": lambda: alive(random_mask(N, T, S)),
    "per head": lambda: alive(random_mask(N, H, T, S)),
    "padding": lambda: alive(random_mask(N, 1, 1, S)),
    "as floats": lambda: alive(random_mask(T, S)).float(),
}


@pytest.mark.parametrize("chunk_size", [1, 3, 64])
@pytest.mark.parametrize("form", MASKS)
def test_chunked_attention_equals_torch_in_values_and_gradients(form: str, chunk_size: int) -> None:
    q, k, v = heads()
    mask = MASKS[form]()
    theirs = None if mask is None else mask.bool()
    theirs = theirs.unsqueeze(1) if theirs is not None and theirs.dim() == 3 else theirs
    ours = chunked_attention(q, k, v, mask, chunk_size=chunk_size)
    same(ours, F.scaled_dot_product_attention(q, k, v, attn_mask=theirs), (q, k, v))


@pytest.mark.parametrize(("targets", "sources"), [(7, 7), (7, 11), (1, 5), (7, 4)])
def test_causal_chunks_equal_the_causal_mask(targets: int, sources: int) -> None:
    q, k, v = heads(targets, sources)
    masked = chunked_attention(q, k, v, causal_mask(targets, sources), chunk_size=3)
    same(chunked_attention(q, k, v, causal=True, chunk_size=3), masked, (q, k, v))
    if sources >= targets:
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(targets, sources))
        same(masked, expected, (q, k, v))


def test_chunks_honour_a_mask_padding_and_causality_together() -> None:
    q, k, v = heads(T, T)
    mask, real = random_mask(T, T), random_mask(N, T, seed=3)
    real[:, 0] = True
    mask[:, 0] = True
    joined = mask & causal_mask(T) & real[:, None, None]
    ours = chunked_attention(q, k, v, mask, key_mask=real, causal=True, chunk_size=2)
    same(ours, F.scaled_dot_product_attention(q, k, v, attn_mask=joined), (q, k, v))


def test_a_query_that_may_look_at_nothing_gets_zero_and_finite_gradients() -> None:
    q, k, v = heads()
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[3] = False
    out = chunked_attention(q, k, v, mask, chunk_size=4)
    assert (out[:, :, 3] == 0).all()
    for gradient in gradients(out, q, k, v):
        assert gradient.isfinite().all()


def test_values_at_masked_places_do_not_matter_even_if_huge() -> None:
    q, k, v = (x.detach() for x in heads())
    real = torch.ones(N, S, dtype=torch.bool)
    real[:, 5:] = False
    changed = v.clone()
    changed[:, :, 5:] = 1e30
    before, after = (chunked_attention(q, k, x, key_mask=real, chunk_size=3) for x in (v, changed))
    assert torch.equal(before, after)


def test_half_precision_sums_are_kept_in_float32() -> None:
    q, k, v = (draw(1, 1, 300, K, seed=seed).detach() for seed in range(3))
    exact = F.scaled_dot_product_attention(q, k, v)
    for dtype in (torch.bfloat16, torch.float16):
        out = chunked_attention(q.to(dtype), k.to(dtype), v.to(dtype), chunk_size=16)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), exact, rtol=0.05, atol=0.02)


def test_dropout_in_chunks_is_the_dropout_of_weights() -> None:
    """With all scores alike, the mean of many queries stays, and each is a mean over the kept half."""
    q, k, v = torch.zeros(1, 1, 400, 2), torch.zeros(1, 1, 50, 2), torch.ones(1, 1, 50, 1)
    torch.manual_seed(0)
    out = chunked_attention(q, k, v, chunk_size=16, dropout_p=0.5)
    kept = out * 50 / 2  # how many of 50 weights were kept
    torch.testing.assert_close(kept, kept.round(), rtol=1e-4, atol=1e-4)
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    assert out.std().item() == pytest.approx(math.sqrt(1 / 50), rel=0.2)


def test_gradients_with_dropout_use_the_same_dropped_weights() -> None:
    q, k, v = heads()
    torch.manual_seed(3)
    out = chunked_attention(q, k, v, chunk_size=3, dropout_p=0.4)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    torch.manual_seed(3)
    again = chunked_attention(q, k, v * 1.0, chunk_size=3, dropout_p=0.4)
    assert torch.equal(out, again)
    # The output is linear in the values: it equals its gradient times them, if both saw the same weights.
    torch.testing.assert_close((gradient * v).sum(), out.sum(), **CLOSE)


def test_the_way_there_leaves_one_node_for_each_block_of_queries() -> None:
    """Nodes of single steps, thousands for a long input, would tear the heap to pieces (gigabytes at 8,192 tokens)."""
    q, k, v = heads()
    seen, waiting = set(), [chunked_attention(q, k, v, chunk_size=3).grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    assert len(seen) <= 3 + 3 + 3  # three blocks, three inputs, cat and split


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_of_some_inputs_alone(wanted: tuple[bool, ...]) -> None:
    inputs = [x.detach().requires_grad_(want) for x, want in zip(heads(), wanted, strict=True)]
    needed = tuple(x for x in inputs if x.requires_grad)
    same(chunked_attention(*inputs, chunk_size=3), F.scaled_dot_product_attention(*inputs), needed)


def test_autocast_on_the_way_there_holds_on_the_way_back() -> None:
    q, k, v = (x.detach().float().requires_grad_() for x in heads())
    with torch.autocast("cpu", torch.bfloat16):
        chunked = chunked_attention(q, k, v, chunk_size=3)
    gradient = torch.autograd.grad(chunked.sum(), v)[0]
    exact = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), v)[0]
    torch.testing.assert_close(gradient, exact, rtol=0.05, atol=0.05)


def test_chunked_attention_works_on_the_meta_device_and_on_nothing() -> None:
    q, k = torch.zeros(N, H, T, K, device="meta"), torch.zeros(N, H, S, K, device="meta")
    assert chunked_attention(q, k, k, torch.ones(T, S, device="meta"), causal=True, chunk_size=3).shape == (N, H, T, K)
    q, k, v = heads()
    assert chunked_attention(q[:, :, :0], k, v).shape == (N, H, 0, V)
    assert (chunked_attention(q, k[:, :, :0], v[:, :, :0]) == 0).all()


# --- linear attention


def dense_linear(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The form of the paper with all T x S weights."""
    weights = torch.einsum("nhtm,nhsm->nhts", q, k)
    if mask is not None:
        weights = weights * mask
    total = weights.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.0, weights / torch.where(total == 0, 1.0, total)) @ v


def feature_heads(length: int = T, sources: int = S) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = heads(length, sources)
    return tuple(x.detach().requires_grad_() for x in (positive_features(q), positive_features(k), v))


def test_positive_features_are_elu_plus_one_and_positive() -> None:
    x = torch.linspace(-5, 5, 41, dtype=torch.float64)
    expected = torch.where(x > 0, x + 1, x.exp())
    torch.testing.assert_close(positive_features(x), expected, **CLOSE)
    assert (positive_features(x) > 0).all()


def test_linear_attention_equals_its_dense_form() -> None:
    q, k, v = feature_heads()
    same(linear_attention(q, k, v), dense_linear(q, k, v), (q, k, v))
    real = random_mask(N, S)
    same(linear_attention(q, k, v, real), dense_linear(q, k, v, real[:, None, None]), (q, k, v))


def test_linear_attention_of_nothing_but_padding_is_zero_with_finite_gradients() -> None:
    q, k, v = feature_heads()
    real = torch.zeros(N, S, dtype=torch.bool)
    real[0] = True
    out = linear_attention(q, k, v, real)
    assert (out[1] == 0).all()
    assert (out[0] != 0).all()
    for gradient in gradients(out, q, k, v):
        assert gradient.isfinite().all()


def test_padding_does_not_matter_even_where_it_is_not_finite() -> None:
    q, k, v = (x.detach() for x in feature_heads())
    real = torch.ones(N, S, dtype=torch.bool)
    real[:, 6:] = False
    broken = k.clone()
    broken[:, :, 6:] = torch.inf
    assert torch.equal(linear_attention(q, broken, v, real), linear_attention(q, k, v, real))


CAUSAL = {
    "steps": recurrent_linear_attention,
    "blocks of 1": lambda *given: causal_linear_attention(*given, chunk_size=1),
    "blocks of 3": lambda *given: causal_linear_attention(*given, chunk_size=3),
    "one block": causal_linear_attention,
}


@pytest.mark.parametrize("form", CAUSAL)
def test_causal_linear_attention_equals_the_masked_dense_form(form: str) -> None:
    q, k, v = feature_heads(T, T)
    same(CAUSAL[form](q, k, v), dense_linear(q, k, v, causal_mask(T)), (q, k, v))
    real = random_mask(N, T)
    real[0, :2] = False  # the first tokens see nothing
    same(CAUSAL[form](q, k, v, real), dense_linear(q, k, v, causal_mask(T) & real[:, None, None]), (q, k, v))


@pytest.mark.parametrize("form", CAUSAL)
def test_future_tokens_do_not_change_the_past(form: str) -> None:
    q, k, v = (x.detach() for x in feature_heads(T, T))
    before = CAUSAL[form](q, k, v)
    for x in (q, k, v):
        x[:, :, 4:] = 7.0
    torch.testing.assert_close(CAUSAL[form](q, k, v)[:, :, :4], before[:, :, :4], rtol=0, atol=0)


def test_the_state_has_one_size_however_long_the_past_is() -> None:
    q, k, v = feature_heads(T, T)
    state = linear_state(q, v)
    for t in range(T):
        _, state = linear_attention_step(state, q[:, :, t], k[:, :, t], v[:, :, t])
        assert [tuple(part.shape) for part in state] == [(N, H, K, V), (N, H, K)]


# --- random features


def test_orthogonal_directions_stand_at_right_angles_within_a_block() -> None:
    directions = orthogonal_projection(10, 4, generator=torch.Generator().manual_seed(0))
    assert directions.shape == (10, 4)
    for block in directions.split(4):
        products = block @ block.T
        torch.testing.assert_close(products, products.diagonal().diag(), **CLOSE)


def test_lengths_and_directions_are_those_of_a_normal_vector() -> None:
    directions = orthogonal_projection(40_000, 3, generator=torch.Generator().manual_seed(0))
    assert directions.mean(0).abs().max() < 0.02
    torch.testing.assert_close(directions.T.cov(), torch.eye(3, dtype=torch.float64), rtol=0.03, atol=0.03)
    assert directions.square().sum(1).var().item() == pytest.approx(2 * 3, rel=0.05)  # chi-squared


def test_one_generator_gives_one_projection() -> None:
    first, second = (orthogonal_projection(5, 4, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)


def test_products_of_features_are_the_exponential_on_average() -> None:
    q, k = (0.5 * F.normalize(x.detach(), dim=-1) for x in heads()[:2])
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(N, H, T, S, dtype=torch.float64)
    for _ in range(200):
        projection = orthogonal_projection(100, K, generator=generator)
        features = [log_random_features(x, projection).exp() for x in (q, k)]
        total += features[0] @ features[1].transpose(-2, -1) / 200
    torch.testing.assert_close(total, (q @ k.transpose(-2, -1) / math.sqrt(K)).exp(), rtol=0.02, atol=0.02)


def test_more_features_come_closer_to_the_softmax() -> None:
    q, k, v = (0.5 * x.detach() for x in heads())
    exact = F.scaled_dot_product_attention(q, k, v)
    errors = []
    for count in (16, 256, 4096):
        generator = torch.Generator().manual_seed(1)
        found = [
            linear_attention(*random_features(q, k, orthogonal_projection(count, K, generator=generator)), v)
            for _ in range(4)
        ]
        errors.append(sum((one - exact).norm().item() for one in found) / 4 / exact.norm().item())
    assert errors[0] > 1.5 * errors[1] > 3 * errors[2]
    assert errors[2] < 0.05


@pytest.fixture(scope="module")
def performer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("performer_pytorch.performer_pytorch")


def test_random_features_equal_the_published_package(performer) -> None:
    q, k, v = heads()
    projection = orthogonal_projection(M, K, generator=torch.Generator().manual_seed(0))
    options = {"projection_matrix": projection, "eps": 0.0}
    theirs = [performer.softmax_kernel(x, is_query=query, **options) for x, query in ((q, True), (k, False))]
    ours = random_features(q, k, projection)
    for mine, published in zip(ours, theirs, strict=True):  # equal up to a factor per row that cancels
        shares = [x / x.sum(-1, keepdim=True) for x in (mine, published)]
        torch.testing.assert_close(*shares, **CLOSE)
    same(linear_attention(*ours, v), performer.linear_attention(*theirs, v), (q, k, v))


def test_the_causal_form_equals_the_published_package(performer) -> None:
    q, k, v = heads(T, T)
    projection = orthogonal_projection(M, K, generator=torch.Generator().manual_seed(0))
    options = {"projection_matrix": projection, "eps": 0.0}
    theirs = [performer.softmax_kernel(x, is_query=query, **options) for x, query in ((q, True), (k, False))]
    published = performer.causal_linear_attention_noncuda(*theirs, v, chunk_size=3, eps=0.0)
    same(causal_linear_attention(*random_features(q, k, projection), v, chunk_size=2), published, (q, k, v))


def test_short_padding_does_not_drown_long_keys() -> None:
    """The factor of a head is that of its real keys: beside keys of 0 the features of long ones would round to 0."""
    generator = torch.Generator().manual_seed(0)
    key, value = torch.randn(2, 1, 2, 6, 16, generator=generator)
    key = 40 * F.normalize(key, dim=-1)
    projection = orthogonal_projection(64, 16, generator=generator)
    alone = linear_attention(*random_features(key, key, projection), value)
    longer, values = (F.pad(x, (0, 0, 0, 3)) for x in (key, value))
    real = (torch.arange(9) < 6)[None]
    features = random_features(key, longer.requires_grad_(), projection, real)
    padded = linear_attention(*features, values, real)
    torch.testing.assert_close(padded, alone, rtol=1e-4, atol=1e-5)
    padded.sum().backward()
    assert longer.grad is not None
    assert longer.grad.isfinite().all()
    nothing = random_features(key, key, projection, torch.zeros(1, 6))[1]
    assert (nothing == 0).all()
    with pytest.raises(ValueError, match="random_features: key_mask must be"):
        random_features(key, key, projection, real)


def test_long_queries_keep_their_choice() -> None:
    """A query of great length picks one key; features that underflow would give all keys the same share."""
    projection = orthogonal_projection(512, K, generator=torch.Generator().manual_seed(0)).float()
    q = torch.tensor([12.0, 0, 0, 0]).view(1, 1, 1, K)
    k = torch.tensor([[3.0, 0, 0, 0], [-3.0, 0, 0, 0]]).view(1, 1, 2, K)
    out = linear_attention(*random_features(q, k, projection), torch.tensor([[1.0], [0.0]]).view(1, 1, 2, 1))
    assert out.item() > 0.9


# --- low rank


def test_low_rank_attention_equals_the_published_package() -> None:
    linformer = pytest.importorskip("linformer.linformer")
    published = linformer.LinformerSelfAttention(H * K, S, k=R, heads=H).double()
    x = draw(N, S, H * K)
    q, k, v = (layer(x).view(N, S, H, K).transpose(1, 2) for layer in (published.to_q, published.to_k, published.to_v))
    mixed = low_rank_attention(q, k, v, published.proj_k, published.proj_v)
    ours = published.to_out(mixed.transpose(1, 2).flatten(2))
    parameters = tuple(published.parameters())
    same(ours, published(x), (x, *parameters))
    shorter = x[:, :8]
    q, k, v = (
        layer(shorter).view(N, 8, H, K).transpose(1, 2) for layer in (published.to_q, published.to_k, published.to_v)
    )
    ours = published.to_out(low_rank_attention(q, k, v, published.proj_k, published.proj_v).transpose(1, 2).flatten(2))
    same(ours, published(shorter), (x, *parameters))


def test_a_shorter_input_equals_a_padded_one() -> None:
    q, k, v = (x.detach() for x in heads())
    e, f = draw(S, R).detach(), draw(S, R, seed=1).detach()
    real = torch.ones(N, S, dtype=torch.bool)
    real[:, 8:] = False
    short = low_rank_attention(q, k[:, :, :8], v[:, :, :8], e, f)
    torch.testing.assert_close(low_rank_attention(q, k, v, e, f, real), short, **CLOSE)


def test_full_rank_with_the_identity_is_full_attention() -> None:
    q, k, v = heads()
    eye = torch.eye(S, dtype=torch.float64)
    same(low_rank_attention(q, k, v, eye, eye), F.scaled_dot_product_attention(q, k, v), (q, k, v))


def test_more_tokens_than_the_projection_has_are_refused_with_both_numbers() -> None:
    q, k, v = heads()
    e = draw(S - 1, R)
    with pytest.raises(ValueError, match=r"key must be at most 10 tokens long, .* got 11; cut the input to 10 tokens"):
        low_rank_attention(q, k, v, e, e)


# --- fitting


def test_the_exponent_of_a_power_law_comes_out() -> None:
    lengths = [100, 300, 1000, 5000]
    for power in (0.0, 1.0, 1.5, 2.0):
        assert fit_exponent(lengths, [3 * n**power for n in lengths]) == pytest.approx(power, abs=1e-12)


def test_the_exponent_equals_numpys_straight_line() -> None:
    numpy = pytest.importorskip("numpy")
    lengths, costs = [64, 128, 256, 512, 1024], [0.9, 2.3, 3.8, 8.9, 15.0]
    expected = numpy.polyfit(numpy.log(lengths), numpy.log(costs), 1)[0]
    found = fit_exponent(lengths, costs)
    assert isinstance(found, float)
    assert found == pytest.approx(expected, rel=1e-12)
    assert fit_exponent(torch.tensor(lengths), torch.tensor(costs)) == pytest.approx(expected, rel=1e-6)


def test_units_do_not_change_the_exponent() -> None:
    lengths, costs = [1, 2, 4, 8], [1.0, 3.0, 4.0, 11.0]
    found = fit_exponent(lengths, costs)
    assert fit_exponent([1000 * n for n in lengths], [cost / 3600 for cost in costs]) == pytest.approx(found)


# --- gradients by central differences, and errors


def test_gradients_agree_with_central_differences() -> None:
    q, k, v = (x.detach()[:1, :2, :3].requires_grad_() for x in heads())
    gradient_check(lambda *x: chunked_attention(*x, chunk_size=2), (q, k, v))
    features = tuple(positive_features(x).detach().requires_grad_() for x in (q, k))
    gradient_check(linear_attention, (*features, v))
    gradient_check(causal_linear_attention, (*features, v))


ERRORS = [
    (
        lambda: chunked_attention(*heads(), chunk_size=0),
        ValueError,
        "chunk_size must be a positive whole number, got 0",
    ),
    (lambda: chunked_attention(*heads(), dropout_p=2.0), ValueError, "dropout_p must be a probability from 0 to 1"),
    (lambda: chunked_attention(*heads(), torch.ones(T, T)), ValueError, r"mask must be of shape \(T, S\) = \(7, 11\)"),
    (lambda: chunked_attention(*heads(), -torch.ones(T, S)), ValueError, "looks like an additive mask"),
    (
        lambda: chunked_attention(*heads(), key_mask=torch.ones(N, T)),
        ValueError,
        r"key_mask must be of shape \(N, S\) = \(2, 11\)",
    ),
    (lambda: chunked_attention(draw(N, T, K), *heads()[1:]), ValueError, r"query must be of shape \(N, H, T, K\)"),
    (
        lambda: chunked_attention(heads()[0], draw(N, H, S, K + 1), heads()[2]),
        ValueError,
        "keys need the batch, heads and width of the queries",
    ),
    (
        lambda: linear_attention(heads()[0], heads()[1], draw(N, H, T, V)),
        ValueError,
        "values need one row for every key",
    ),
    (lambda: linear_attention(heads()[0].float(), *heads()[1:]), TypeError, "like query"),
    (lambda: linear_attention(*heads(), torch.ones(N, T)), ValueError, r"key_mask must be of shape \(N, S\)"),
    (
        lambda: causal_linear_attention(*heads()),
        ValueError,
        "key must be as long as query, 7 tokens, got 11; the past is defined within one sequence",
    ),
    (lambda: recurrent_linear_attention(*heads()), ValueError, "as long as query, 7 tokens, got 11"),
    (lambda: causal_linear_attention(*heads(T, T), chunk_size=0), ValueError, "chunk_size must be a positive"),
    (
        lambda: online_softmax_step((1, 2), draw(N, H, T, 3), draw(N, H, 3, V)),
        TypeError,
        r"state must be the three tensors \(mixed, top, total\), got tuple of 2; start with 0, -inf, 0",
    ),
    (
        lambda: online_softmax_step(empty_state(T + 1), draw(N, H, T, 3), draw(N, H, 3, V)),
        ValueError,
        "mixed must be of shape",
    ),
    (
        lambda: online_softmax_step(empty_state(), draw(N, H, T, 3), draw(N, H, 4, V)),
        ValueError,
        "values need one row for every key of the block",
    ),
    (
        lambda: online_softmax_step(empty_state(), torch.zeros(N, H, T, 0), torch.zeros(N, H, 0, V)),
        ValueError,
        "scores must be of one key or more",
    ),
    (
        lambda: online_softmax_step(empty_state(), draw(N, H, T, 3), draw(N, H, 3, V), dropout_p=-0.1),
        ValueError,
        "dropout_p must be a probability",
    ),
    (
        lambda: linear_attention_step(torch.zeros(1), draw(N, H, K), draw(N, H, K), draw(N, H, V)),
        TypeError,
        r"state must be the two tensors \(context, total\), got Tensor; start with linear_state",
    ),
    (
        lambda: linear_attention_step(linear_state(*heads()[::2]), draw(N, H, 1, K), draw(N, H, K), draw(N, H, V)),
        ValueError,
        "pass one token, without an axis of length",
    ),
    (
        lambda: linear_attention_step(linear_state(*heads()[::2]), draw(N, H, M), draw(N, H, M), draw(N, H, V)),
        ValueError,
        "context must be of shape",
    ),
    (lambda: orthogonal_projection(0, 4), ValueError, "num_features must be a positive whole number"),
    (lambda: orthogonal_projection(4, 2.5), TypeError, "width must be a positive whole number"),
    (
        lambda: log_random_features(draw(N, H, T, K), draw(M, K + 1)),
        ValueError,
        r"projection must be of shape \(M, K\) = \(any, 4\), got \(6, 5\); draw it for this width",
    ),
    (
        lambda: low_rank_attention(*heads(), draw(S, R), draw(S, R + 1)),
        ValueError,
        "value_projection must be of shape",
    ),
    (lambda: positive_features(torch.ones(3, dtype=torch.long)), TypeError, "a tensor of a floating dtype"),
    (lambda: fit_exponent([1, 2], [1.0]), ValueError, "costs must be 2 numbers, one per length, got 1"),
    (lambda: fit_exponent([3, 3], [1.0, 2.0]), ValueError, "two different lengths or more"),
    (lambda: fit_exponent([1, 2], [0.0, 2.0]), ValueError, "costs must be positive throughout"),
    (lambda: fit_exponent([-1, 2], [1.0, 2.0]), ValueError, "lengths must be positive throughout"),
    (lambda: fit_exponent([], []), ValueError, "two different lengths or more"),
    (lambda: fit_exponent([5], [1.0]), ValueError, "two different lengths or more"),
    (lambda: fit_exponent([1, 2], [1.0, math.inf]), ValueError, "costs must be positive throughout and finite"),
    (lambda: fit_exponent([1, math.inf], [1.0, 2.0]), ValueError, "lengths must be positive throughout and finite"),
    (lambda: fit_exponent([1, 2], [math.nan, 2.0]), ValueError, "costs must be positive throughout and finite"),
    (lambda: fit_exponent([math.nan, math.nan], [1.0, 2.0]), ValueError, "lengths must be positive throughout"),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_errors_say_what_was_expected_and_what_to_do(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()
