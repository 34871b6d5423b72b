"""Attention in buckets against a dense mask that a loop makes from the published description."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cs_transformers.buckets import bucket_attention, draw_rotations, hash_buckets

N, H, T, K, ROUNDS = 2, 3, 13, 4, 2
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def heads(length: int = T) -> tuple[Tensor, Tensor]:
    drawn = torch.randn(2, N, H, length, K, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return drawn[0].clone().requires_grad_(), drawn[1].clone().requires_grad_()


def rotations(rounds: int = ROUNDS, buckets: int = 4) -> Tensor:
    return draw_rotations(rounds, K, buckets, generator=torch.Generator().manual_seed(3)).double()


def visible(bucket: list[int], chunk: int, real: list[bool], *, causal: bool) -> Tensor:
    """Who sees whom: the same bucket, the same chunk of the sorted tokens or the one before, itself only if alone."""
    order = sorted(range(len(bucket)), key=lambda t: (not real[t], bucket[t], t))
    piece = {t: place // chunk for place, t in enumerate(order)}
    seen = torch.zeros(len(bucket), len(bucket), dtype=torch.bool)
    for t in range(len(bucket)):
        for s in range(len(bucket)):
            near = piece[t] - piece[s] in (0, 1)
            fits = real[s] and real[t] and bucket[t] == bucket[s] and near and (s <= t or not causal)
            seen[t, s] = fits and s != t
        if not seen[t].any() and real[t]:
            seen[t, t] = True
    return seen


def dense(query: Tensor, value: Tensor, turns: Tensor, chunk: int, real: Tensor, *, causal: bool = False) -> Tensor:
    key = query / query.norm(dim=-1, keepdim=True)
    scores = query @ key.transpose(-2, -1) / K**0.5
    total, weight = torch.zeros_like(value), torch.zeros(*value.shape[:-1], 1, dtype=value.dtype)
    for bucket in hash_buckets(query, turns):
        mask = torch.stack(
            [
                torch.stack([visible(row.tolist(), chunk, real[n].tolist(), causal=causal) for row in bucket[n]])
                for n in range(len(query))
            ]
        )
        share = scores.exp() * mask
        total, weight = total + share @ value, weight + share.sum(-1, keepdim=True)
    return total / weight.masked_fill(weight == 0, 1.0)


def same(left: Tensor, right: Tensor, inputs: tuple[Tensor, ...], rows: Tensor | None = None) -> None:
    if rows is not None:
        left, right = (x * rows[:, None, :, None] for x in (left, right))
    torch.testing.assert_close(left, right, **CLOSE)
    weights = torch.cos(torch.arange(left.numel(), dtype=left.dtype)).view_as(left)
    ours, theirs = (torch.autograd.grad((x * weights).sum(), inputs) for x in (left, right))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 3, 5, T, 40])
@pytest.mark.parametrize("rounds", [1, 3])
def test_buckets_equal_a_dense_mask(rounds: int, chunk_size: int, causal: bool) -> None:
    query, value = heads()
    ours = bucket_attention(query, value, rotations(rounds), chunk_size=chunk_size, causal=causal)
    real = torch.ones(N, T, dtype=torch.bool)
    same(ours, dense(query, value, rotations(rounds), chunk_size, real, causal=causal), (query, value))


@pytest.mark.parametrize("causal", [False, True])
def test_padding_takes_no_place_in_a_chunk_and_is_not_seen(causal: bool) -> None:
    query, value = heads()
    real = torch.ones(N, T, dtype=torch.bool)
    real[0, 9:] = real[1, 4:6] = False
    ours = bucket_attention(query, value, rotations(), chunk_size=3, key_mask=real, causal=causal)
    same(ours, dense(query, value, rotations(), 3, real, causal=causal), (query, value), real)
    alone = bucket_attention(query[:1, :, :9], value[:1, :, :9], rotations(), chunk_size=3, causal=causal)
    torch.testing.assert_close(ours[:1, :, :9], alone, **CLOSE)


def test_the_future_does_not_change_the_past_where_a_chunk_holds_everything() -> None:
    query, value = (x.detach() for x in heads())
    before = bucket_attention(query, value, rotations(), chunk_size=T, causal=True)
    query[:, :, 8:], value[:, :, 8:] = 3.0, -5.0
    after = bucket_attention(query, value, rotations(), chunk_size=T, causal=True)
    torch.testing.assert_close(after[:, :, :8], before[:, :, :8], **CLOSE)


def test_a_bucket_does_not_depend_on_the_length_of_a_vector() -> None:
    query = heads()[0].detach()
    assert torch.equal(hash_buckets(query, rotations()), hash_buckets(17 * query, rotations()))


def test_opposite_vectors_fall_into_opposite_buckets() -> None:
    query = heads()[0].detach()
    there, back = hash_buckets(query, rotations()), hash_buckets(-query, rotations())
    assert torch.equal((there + 2) % 4, back)
    assert there.min() >= 0
    assert there.max() <= 3


def test_similar_vectors_meet_more_often_than_others() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, 2000, 16, generator=generator)
    near = F.normalize(x, dim=-1) + 0.1 * F.normalize(torch.randn(x.shape, generator=generator), dim=-1)
    turns = draw_rotations(1, 16, 16, generator=generator)
    bucket, close, far = (hash_buckets(each, turns) for each in (x, near, x.flip(2)))
    assert (bucket == close).double().mean() > 0.8
    assert (bucket == far).double().mean() < 0.15


def test_more_rounds_come_closer_to_attention_with_shared_keys() -> None:
    """Clustered tokens: what matters to a token lies in its cluster, and with many rounds the cluster is found."""
    generator = torch.Generator().manual_seed(1)
    centres = 24 * F.normalize(torch.randn(8, 16, generator=generator, dtype=torch.float64), dim=-1)
    group = torch.arange(128) % 8
    query = (centres[group] + 2 * torch.randn(128, 16, generator=generator, dtype=torch.float64))[None, None]
    value = centres[group][None, None]
    scores = query @ F.normalize(query, dim=-1).transpose(-2, -1) / 4
    exact = scores.masked_fill(torch.eye(128, dtype=torch.bool), -torch.inf).softmax(-1) @ value
    errors = []
    for rounds in (1, 6):
        turns = draw_rotations(rounds, 16, 8, generator=generator).double()
        out = bucket_attention(query, value, turns, chunk_size=128)
        errors.append(((out - exact).norm() / exact.norm()).item())
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.1


def test_dropout_acts_on_the_weights() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 1, 500, 8)
    out = bucket_attention(x, torch.ones(1, 1, 500, 1), draw_rotations(1, 8, 2), chunk_size=64, dropout_p=0.5)
    assert out.std() > 0.05
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)


def test_an_empty_sequence_comes_back_empty() -> None:
    assert bucket_attention(*heads(0), rotations()).shape == (N, H, 0, K)


ERRORS = [
    (lambda: draw_rotations(2, 4, 3), ValueError, "num_buckets must be an even number, got 3; use 4"),
    (lambda: draw_rotations(0, 4, 2), ValueError, "rounds must be a positive whole number"),
    (lambda: hash_buckets(heads()[0], torch.zeros(2, K + 1, 2)), ValueError, "rotations must be of shape"),
    (lambda: hash_buckets(torch.zeros(3, K), rotations()), ValueError, "split the heads first"),
    (lambda: bucket_attention(*heads(), rotations(), chunk_size=0), ValueError, "chunk_size must be a positive"),
    (lambda: bucket_attention(*heads(), rotations(), dropout_p=-1), ValueError, "dropout_p must be a probability"),
    (
        lambda: bucket_attention(*heads(), rotations(), key_mask=torch.ones(N, T + 1)),
        ValueError,
        "key_mask must be of shape",
    ),
    (lambda: bucket_attention(heads()[0], heads(5)[1], rotations()), ValueError, "values need one row for every key"),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_errors_say_what_was_expected_and_what_to_do(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()
