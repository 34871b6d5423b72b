"""Messages have four parts, and the checks let pass what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

from cs_transformers.errors import (
    autocast_is_on,
    check_choice,
    check_count,
    check_ids,
    check_like_weights,
    check_pixels,
    check_probability,
    check_same_kind,
    check_shape,
    check_tensor,
    explain,
)


def test_a_layer_without_weights_takes_anything_and_autocast_picks_dtypes_itself() -> None:
    check_like_weights("who", nn.Identity(), x=torch.zeros(2, dtype=torch.float64, device="meta"))
    with torch.autocast("cpu", torch.bfloat16):
        check_like_weights("who", nn.Linear(2, 2), x=torch.zeros(2, dtype=torch.bfloat16))


def test_a_message_says_who_expected_got_and_what_to_do() -> None:
    message = explain("PositionalEncoding", "embed_dim", "a positive even number", 5, "use 4 or 6")
    assert message == "PositionalEncoding: embed_dim must be a positive even number, got 5; use 4 or 6."


def test_what_is_right_passes() -> None:
    check_count("who", "n", 1)
    check_count("who", "n", np.int64(3))
    check_count("who", "n", 0, minimum=0)
    for value in (0, 0.0, 0.5, 1, np.float32(0.1)):
        check_probability("who", "p", value)
    check_choice("who", "c", None, (None, "2d"))
    check_choice("who", "c", "2d", (None, "2d"))
    check_tensor("who", "x", torch.zeros(2, dtype=torch.bfloat16))
    check_tensor("who", "x", torch.zeros(2, dtype=torch.bool), floating=False)
    check_shape("who", "x", torch.zeros(3, 4), N=3, T=None)
    check_same_kind("who", "x", x=torch.zeros(2), y=torch.ones(3))
    check_pixels("who", "x", torch.tensor([-2.12, 0.0, 1.0, 2.64]))  # normalised by the statistics of ImageNet
    check_pixels("who", "x", 0.5 + torch.randn(10_000, generator=torch.Generator().manual_seed(0)) * 75 / 255)
    check_pixels("who", "x", torch.zeros(0))
    check_pixels("who", "x", torch.zeros(2, device="meta"))


def test_autocast_is_noticed_and_lets_dtypes_mix() -> None:
    assert not autocast_is_on(torch.zeros(1))
    assert not autocast_is_on(torch.zeros(1, device="meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast_is_on(torch.zeros(1))
        check_same_kind("who", "x", x=torch.zeros(2), y=torch.ones(3, dtype=torch.bfloat16))


def wrong_calls() -> Iterator[tuple[str, Callable[[], object], type[Exception], str]]:
    x = torch.zeros(3, 4)
    yield (
        "count",
        lambda: check_count("A", "n", 0),
        ValueError,
        r"^A: n must be a positive whole number, got 0; pass 1 or",
    )
    yield (
        "minimum",
        lambda: check_count("A", "n", 1, minimum=2),
        ValueError,
        "a whole number of at least 2, got 1; pass 2",
    )
    yield "bool", lambda: check_count("A", "n", True), TypeError, r"got True \(bool\); pass an int"
    yield "float", lambda: check_count("A", "n", 2.0), TypeError, r"got 2.0 \(float\); pass an int"
    yield (
        "above",
        lambda: check_probability("A", "p", 1.5),
        ValueError,
        "A: p must be a probability from 0 to 1, got 1.5",
    )
    yield "nan", lambda: check_probability("A", "p", float("nan")), ValueError, "got nan; pass 0.0 for no dropout"
    yield "module", lambda: check_probability("A", "p", nn.Dropout()), TypeError, "pass a float, 0.0 for no dropout"
    yield "choice", lambda: check_choice("A", "c", "x", ("y", "z")), ValueError, "A: c must be one of 'y', 'z', got 'x'"
    yield "alike", lambda: check_choice("A", "c", 1, (True, "z")), ValueError, "one of True, 'z', got 1; choose one of"
    yield (
        "array",
        lambda: check_tensor("A", "x", np.zeros(2)),
        TypeError,
        "A: x must be a torch.Tensor, got ndarray; conv",
    )
    grey = "A: x must be of pixels from 0 to 1, got values from 0 to 255; divide grey levels by 255"
    yield "grey levels", lambda: check_pixels("A", "x", torch.tensor([0.0, 255.0])), ValueError, grey
    yield "below", lambda: check_pixels("A", "x", torch.tensor([-128.0, 0.0])), ValueError, "from -128 to 0; divide"
    yield "ints", lambda: check_tensor("A", "x", x.long()), TypeError, "a tensor of a floating dtype, got torch.int64"
    yield (
        "axes",
        lambda: check_shape("A", "x", x, N=3),
        ValueError,
        r"A: x must be of shape \(N\) = \(3\), got \(3, 4\)",
    )
    yield (
        "size",
        lambda: check_shape("A", "x", x, "swap", N=None, T=3),
        ValueError,
        r"\(N, T\) = \(any, 3\), got .*; swap\.",
    )
    yield (
        "dtype",
        lambda: check_same_kind("A", "x", x=x, y=x.half()),
        TypeError,
        "y must be torch.float32 like x, got torc",
    )
    yield (
        "device",
        lambda: check_same_kind("A", "x", x=x, y=x.to("meta")),
        ValueError,
        "on cpu like x, got meta; move it",
    )
    layer = nn.Linear(4, 2)
    kind = "A: x must be torch.float32 like weights, got torch.float64; convert the input with .* or the module with"
    yield "weights", lambda: check_like_weights("A", layer, x=x.double()), TypeError, kind
    place = "A: x must be on cpu like weights, got meta; move it"
    yield "place", lambda: check_like_weights("A", layer, x=x.to("meta")), ValueError, place


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_what_is_wrong_is_refused(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_ids_must_be_whole_numbers_of_the_vocabulary() -> None:
    assert check_ids("who", "ids", torch.tensor([3], dtype=torch.int16), 4).dtype == torch.int64
    assert check_ids("who", "ids", torch.zeros(2, dtype=torch.int64, device="meta"), 1).device.type == "meta"
    for wrong in (torch.zeros(1), torch.zeros(1, dtype=torch.bool), torch.zeros(1, dtype=torch.complex64)):
        with pytest.raises(TypeError, match=r"who: ids must be whole numbers"):
            check_ids("who", "ids", wrong, 4)
    for outside in (4, -1):
        with pytest.raises(ValueError, match=rf"ids must be ids of the vocabulary of 4 words, .* got the id {outside}"):
            check_ids("who", "ids", torch.tensor([0, outside]), 4)
