"""Caches: nothing is lost, nothing is mixed up, nothing changes when a call is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from cs_transformers.cache import DecoderCache, DecoderLayerCache, KeyValueCache, extend_cache

N, H, S, K = 3, 2, 5, 6


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_parts_come_back_in_the_order_in_which_they_were_added() -> None:
    key, value, cache = noise(N, H, S, K), noise(N, H, S, K, seed=1), KeyValueCache()
    assert cache.length == 0
    for start, stop in ((0, 2), (2, 3), (3, 5)):
        seen_key, seen_value = extend_cache(cache, key[:, :, start:stop], value[:, :, start:stop])
        assert torch.equal(seen_key, key[:, :, :stop])
        assert torch.equal(seen_value, value[:, :, :stop])
        assert cache.key is seen_key
        assert cache.value is seen_value
        assert cache.length == stop


def test_adding_nothing_copies_nothing() -> None:
    cache = KeyValueCache()
    key, value = extend_cache(cache, noise(N, H, S, K), noise(N, H, S, K))
    again = extend_cache(cache, key[:, :, :0], value[:, :, :0])
    assert again[0] is key
    assert again[1] is value
    empty = KeyValueCache()
    extend_cache(empty, key[:, :, :0], value[:, :, :0])
    assert empty.length == 0


def test_what_was_added_is_not_changed_by_what_follows() -> None:
    cache, key = KeyValueCache(), noise(N, H, S, K)
    before = key.clone()
    first, _ = extend_cache(cache, key, key)
    extend_cache(cache, noise(N, H, 1, K), noise(N, H, 1, K))
    assert torch.equal(first, before)


def test_gradients_flow_through_the_cache() -> None:
    cache, key = KeyValueCache(), noise(N, H, S, K).requires_grad_()
    extend_cache(cache, key, key)
    total, _ = extend_cache(cache, noise(N, H, 1, K), noise(N, H, 1, K))
    total.sum().backward()
    assert torch.equal(key.grad, torch.ones(N, H, S, K))


def test_rows_can_be_reordered_repeated_and_dropped() -> None:
    key, value, cache = noise(N, H, S, K), noise(N, H, S, K, seed=1), KeyValueCache()
    cache.reorder(torch.tensor([1]))  # nothing yet: nothing to do
    extend_cache(cache, key, value)
    cache.reorder(torch.tensor([2, 0, 0, 1]))
    assert torch.equal(cache.key, key[[2, 0, 0, 1]])
    assert torch.equal(cache.value, value[[2, 0, 0, 1]])
    cache.reorder(torch.tensor([3], dtype=torch.int32))
    assert torch.equal(cache.key, key[[1]])


def test_a_stacks_cache_reorders_every_layer_and_counts_the_target() -> None:
    cache = DecoderCache(3)
    assert cache.length == 0
    for number, layer in enumerate(cache.layers):
        extend_cache(layer.self_attn, noise(N, H, 2, K, seed=number), noise(N, H, 2, K))
        extend_cache(layer.cross_attn, noise(N, H, S, K, seed=10 + number), noise(N, H, S, K))
    cache.reorder(torch.tensor([1, 1, 0]))
    assert cache.length == 2
    for number, layer in enumerate(cache.layers):
        assert torch.equal(layer.self_attn.key, noise(N, H, 2, K, seed=number)[[1, 1, 0]])
        assert torch.equal(layer.cross_attn.key, noise(N, H, S, K, seed=10 + number)[[1, 1, 0]])
        assert (layer.length, layer.cross_attn.length) == (2, S)


def wrong_calls() -> Iterator[tuple[str, Callable[[KeyValueCache], object], type[Exception], str]]:
    key = noise(N, H, 1, K)
    yield (
        "no cache",
        lambda _: extend_cache({}, key, key),
        TypeError,
        "extend_cache: cache must be a KeyValueCache, got dict",
    )
    yield "list", lambda c: extend_cache(c, [1], key), TypeError, "key must be a torch.Tensor, got list"
    yield "ints", lambda c: extend_cache(c, key, key.long()), TypeError, "value must be a tensor of a floating dtype"
    yield (
        "axes",
        lambda c: extend_cache(c, key[0], key),
        ValueError,
        r"\(N, H, S, K\), got \(2, 1, 6\); split the heads",
    )
    yield (
        "value",
        lambda c: extend_cache(c, key, key[:2]),
        ValueError,
        r"shape of key, \(3, 2, 1, 6\), got \(2, 2, 1, 6\)",
    )
    yield (
        "flat",
        lambda c: extend_cache(c, key, key[..., 0]),
        ValueError,
        r"shape of key, \(3, 2, 1, 6\), got \(3, 2, 1\)",
    )
    batch = r"\(3, 2, any, 6\) like the cache, got \(2, 2, 1, 6\); start a new cache for another batch"
    yield "batch", lambda c: extend_cache(c, key[:2], key[:2]), ValueError, batch
    wide = torch.zeros(N, H, 1, 9)
    yield (
        "width",
        lambda c: extend_cache(c, key, wide),
        ValueError,
        r"value must be .* any, 6\) like the cache, got \(3",
    )
    kind = "key must be torch.float32 like the cache, got torch.float64"
    yield "dtype", lambda c: extend_cache(c, key.double(), key), TypeError, kind
    place = "value must be on cpu like the cache, got meta; move it"
    yield "device", lambda c: extend_cache(c, key, key.to("meta")), ValueError, place
    yield "heads", lambda c: extend_cache(c, key[:, :1], key[:, :1]), ValueError, "like the cache"
    yield "order", lambda c: c.reorder([0]), TypeError, "reorder: index must be a torch.Tensor, got list"
    yield "floats", lambda c: c.reorder(torch.ones(2)), TypeError, "index must be whole numbers, got torch.float32"
    yield (
        "two axes",
        lambda c: c.reorder(torch.zeros(2, 2).long()),
        ValueError,
        r"\(N,\), got \(2, 2\); flatten the beams",
    )
    yield (
        "layers",
        lambda _: DecoderCache(0),
        ValueError,
        "DecoderCache: num_layers must be a positive whole number, got 0",
    )
    yield "layer", lambda _: DecoderLayerCache().reorder(None), TypeError, "index must be a torch.Tensor, got NoneType"
    yield "stack", lambda _: DecoderCache(2).reorder(torch.ones(2)), TypeError, "index must be whole numbers"


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_call_is_refused_and_changes_nothing(
    call: Callable[[KeyValueCache], object], kind: type[Exception], message: str
) -> None:
    cache = KeyValueCache()
    key, value = extend_cache(cache, noise(N, H, S, K), noise(N, H, S, K))
    with pytest.raises(kind, match=message):
        call(cache)
    assert cache.key is key
    assert cache.value is value
