"""Masks: every accepted form means the same, everything else is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from cs_transformers.masks import check_attention_mask, check_key_mask, check_masks, combine_masks, to_bool

N, T, S, H = 3, 4, 5, 2
SHAPE = (N, H, T, S)
CPU = torch.device("cpu")


def coin(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.float64],
)
def test_a_0_1_mask_of_any_dtype_becomes_the_same_bool_mask(dtype: torch.dtype) -> None:
    assert torch.equal(to_bool(coin(T, S).to(dtype), who="test"), coin(T, S))


def test_any_positive_whole_number_means_may_attend() -> None:
    assert to_bool(torch.tensor([0, 1, 7]), who="test").tolist() == [False, True, True]


@pytest.mark.parametrize("entry", [-torch.inf, torch.inf, torch.nan, -1e9, -1.0, 0.5])
def test_a_float_mask_with_anything_but_0_and_1_is_refused(entry: float) -> None:
    mask = torch.tensor([[0.0, 1.0], [entry, 1.0]])
    message = f"test: tgt_mask must be 0/1 .*, got an entry {entry}; this looks like an additive mask"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        to_bool(mask, who="test", name="tgt_mask")


def test_a_negative_whole_number_is_refused() -> None:
    with pytest.raises(ValueError, match="got an entry -10000; this looks like an additive mask"):
        to_bool(torch.tensor([0, -10000]), who="test")


def test_values_are_not_looked_at_where_there_are_none() -> None:
    assert to_bool(torch.full((T, S), -torch.inf, device="meta"), who="test").dtype == torch.bool
    assert to_bool(torch.zeros(0, S), who="test").shape == (0, S)


@pytest.mark.parametrize("axes", ["ts", "nts", "0ts", "n0ts", "nhts", "0hts", "n00s"])
def test_each_form_means_what_its_axes_say(axes: str) -> None:
    sizes = {"n": N, "h": H, "t": T, "s": S, "0": 1}
    given = coin(*[sizes[axis] for axis in axes])
    mask = check_attention_mask(given, SHAPE, who="test")
    assert mask.dim() == 4
    for place in itertools.product(*[range(size) for size in SHAPE]):
        where = dict(zip("nhts", place, strict=True))
        assert mask.expand(SHAPE)[place] == given[tuple(where.get(axis, 0) for axis in axes)]


def test_scores_without_batch_or_heads_take_the_forms_they_have_axes_for() -> None:
    assert check_attention_mask(coin(T, S), (T, S), who="test").shape == (T, S)
    assert check_attention_mask(coin(T, S), (N, T, S), who="test").shape == (1, T, S)
    assert torch.equal(check_attention_mask(coin(N, T, S), (N, T, S), who="test"), coin(N, T, S))


def test_a_key_is_seen_only_where_both_masks_allow_it() -> None:
    attn, keys = coin(T, S), coin(N, S, seed=1)
    both = combine_masks(attn.float(), keys.int(), SHAPE, device=CPU, who="test")
    assert torch.equal(both.expand(SHAPE), (attn & keys[:, None, None, :]).expand(SHAPE))
    alone = combine_masks(None, keys, SHAPE, device=CPU, who="test")
    assert torch.equal(alone.expand(SHAPE), keys[:, None, None, :].expand(SHAPE))
    assert torch.equal(combine_masks(attn, None, SHAPE, device=CPU, who="test")[0, 0], attn)
    assert combine_masks(None, None, SHAPE, device=CPU, who="test") is None
    moved = combine_masks(attn, keys, SHAPE, device=torch.device("meta"), who="test")
    assert moved.device.type == "meta"


def test_the_masks_of_a_call_are_known_by_their_names() -> None:
    check_masks("test", SHAPE, tgt_mask=coin(T, S), tgt_key_mask=coin(N, S), memory_mask=None)
    with pytest.raises(ValueError, match="tgt_mask must be of shape"):
        check_masks("test", SHAPE, tgt_mask=coin(N, S))
    with pytest.raises(ValueError, match="tgt_key_mask must be of shape"):
        check_masks("test", SHAPE, tgt_key_mask=coin(T, S))


def wrong_calls() -> Iterator[tuple[str, object, tuple[int, ...], type[Exception], str]]:
    every = r"\(T, S\) = \(4, 5\) or \(N, T, S\) = \(3, 4, 5\) or "
    every += r"\(N, 1, T, S\), \(N, H, T, S\) = \(3, 2, 4, 5\) or \(N, 1, 1, S\)"
    yield "transposed", coin(S, T), SHAPE, ValueError, every + r", got \(5, 4\); it looks transposed: rows are queries"
    yield "short", coin(T, 3), SHAPE, ValueError, r"got \(4, 3\); rows are queries and columns are keys"
    yield "keys", coin(N, S), SHAPE, ValueError, r"got \(3, 5\)"
    yield "one axis", coin(S), SHAPE, ValueError, r"got \(5,\)"
    yield "per head", coin(H, T, S), SHAPE, ValueError, "three axes never mean one mask per head"
    yield "torch", coin(N * H, T, S), SHAPE, ValueError, r"got \(6, 4, 5\); three axes never mean one mask per head"
    yield "batch", coin(2, 1, T, S), SHAPE, ValueError, r"got \(2, 1, 4, 5\)"
    yield "heads", coin(N, 3, T, S), SHAPE, ValueError, r"got \(3, 3, 4, 5\)"
    yield "five", coin(1, N, H, T, S), SHAPE, ValueError, r"got \(1, 3, 2, 4, 5\)"
    yield "no heads", coin(N, 1, T, S), (N, T, S), ValueError, r"\(T, S\) = \(4, 5\) or \(N, T, S\) = \(3, 4, 5\), got"
    yield "no batch", coin(N, T, S), (T, S), ValueError, r"of shape \(T, S\) = \(4, 5\), got \(3, 4, 5\)"
    yield (
        "list",
        [[1]],
        SHAPE,
        TypeError,
        r"attn_mask must be a torch.Tensor, got list; convert it with torch.as_tensor",
    )
    yield "complex", coin(T, S).to(torch.complex64), SHAPE, TypeError, "bool, int or float 0/1, got torch.complex64"


CALLS = list(wrong_calls())


@pytest.mark.parametrize(
    ("mask", "shape", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS]
)
def test_a_mask_of_another_shape_or_type_is_refused(
    mask: Tensor, shape: tuple[int, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        check_attention_mask(mask, shape, who="test", name="attn_mask")


def test_a_padding_mask_of_another_shape_or_type_is_refused() -> None:
    assert torch.equal(check_key_mask(coin(N, S).double(), N, S, who="test"), coin(N, S))
    with pytest.raises(
        ValueError, match=r"key_mask must be of shape \(N, S\) = \(3, 5\), got \(5, 3\); give one row per"
    ):
        check_key_mask(coin(S, N), N, S, who="test")
    with pytest.raises(TypeError, match=r"key_mask must be a torch.Tensor, got tuple"):
        check_key_mask((True,), N, S, who="test")
    with pytest.raises(ValueError, match=r"key_mask must be 0/1"):
        check_key_mask(torch.full((N, S), -torch.inf), N, S, who="test")
