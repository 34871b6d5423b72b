"""The table of methods says what the layers do; time and memory are measured as they are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cs_transformers.attention import causal_mask, scaled_dot_product_attention
from cs_transformers.efficient import fit_exponent
from cs_transformers.efficient_methods import (
    COLUMNS,
    METHODS,
    builder,
    chooser_table,
    head_attention,
    operations_of,
    peak_bytes,
    relative_difference,
    seconds_of,
)

N, H, T, K = 2, 3, 16, 5
NEEDED = {"low rank": {"max_len": T}, "shifted window": {"grid": (4, 4), "window": 2}}
WIDE = {"sliding window": {"window": T}, "shifted window": {"grid": (4, 4), "window": 4}}


def heads(length: int = T, width: int = K) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(3, N, H, length, width, generator=torch.Generator().manual_seed(0)).unbind())


@pytest.mark.parametrize("name", METHODS)
def test_the_table_says_what_a_layer_takes(name: str) -> None:
    """Try what each column promises."""

    def works(**given: object) -> bool:
        causal = bool(given.pop("causal", False))
        x = torch.randn(N, T, 10)
        memory = given.pop("memory", x)
        try:
            options = {**NEEDED.get(name, {}), **({"causal": True} if causal and name != "explicit" else {})}
            builder(name, **options)(10, 2, 0.0)(x, memory, memory, **given)
        except ValueError:
            return False
        return True

    row = dict(zip(COLUMNS, _rows()[name], strict=True))
    assert works()
    assert (row["causal"] == "yes") == works(causal=True, attn_mask=causal_mask(T))
    assert (row["masks"] == "any") == works(attn_mask=torch.eye(T))
    assert (row["masks"] != "none") == works(key_mask=torch.ones(N, T))
    assert (row["other memory"] == "yes") == works(memory=torch.randn(N, T - 3, 10))


def _rows() -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in chooser_table().splitlines()]
    assert lines[0] == list(COLUMNS)
    assert all(len(line) == len(COLUMNS) for line in lines)
    return {line[0]: line for line in lines[2:]}


@pytest.mark.parametrize("name", METHODS)
def test_what_is_called_exact_is_exact(name: str) -> None:
    q, k, v = heads()
    exact = F.scaled_dot_product_attention(q, k, v)
    found = head_attention(name, K, **{**NEEDED.get(name, {}), **WIDE.get(name, {})})(q, k, v)
    equal = relative_difference(found, exact) < 1e-5
    assert equal == (METHODS[name].exact in ("yes", "within the window"))


def test_an_unknown_method_is_refused_with_a_list_of_those_there_are() -> None:
    with pytest.raises(ValueError, match="name must be one of 'explicit', 'chunked', 'linear'"):
        builder("fast")


def test_the_relative_difference_is_a_share_of_the_exact_result() -> None:
    x = torch.tensor([3.0, 4.0])
    assert relative_difference(x, x) == 0
    assert relative_difference(torch.zeros(2), x) == pytest.approx(1.0)


def test_seconds_are_the_shortest_of_the_repeats_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, took = [0.0], iter([0.5, 9.0, 4.0, 2.0, 3.0])  # the first call warms up, the second is a look at the scale

    def call() -> None:
        clock[0] += next(took)

    monkeypatch.setattr("cs_transformers.efficient_methods.time.process_time", lambda: clock[0])
    assert seconds_of(call, repeats=3) == 2.0
    with pytest.raises(ValueError, match="repeats must be a positive whole number"):
        seconds_of(call, repeats=0)


def test_short_calls_are_made_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = [0.0], []

    def call() -> None:
        calls.append(1)
        clock[0] += 0.001

    monkeypatch.setattr("cs_transformers.efficient_methods.time.process_time", lambda: clock[0])
    assert seconds_of(call, repeats=2) == pytest.approx(0.001)
    assert len(calls) == 2 + 2 * 20


def test_operations_of_attention_are_those_of_its_two_products() -> None:
    q, k, v = heads()
    assert operations_of(lambda: scaled_dot_product_attention(q, k, v)) == 2 * 2 * N * H * T * T * K
    linear = operations_of(lambda: head_attention("linear", K)(q, k, v))
    assert linear == 2 * N * H * T * (2 * K * K + K)


def test_peak_bytes_counts_what_is_alive_at_once() -> None:
    x = torch.zeros(1000)

    def one_after_the_other() -> None:
        for _ in range(5):
            y = x + 1  # the old one dies when the name gets the new one
            del y

    assert peak_bytes(one_after_the_other) == 4000
    assert peak_bytes(lambda: [x + i for i in range(5)]) == 5 * 4000
    assert peak_bytes(lambda: x[10:].view(-1, 3)) == 0  # views take no room
    assert peak_bytes(lambda: x.add_(1)) == 0


def test_peak_bytes_sees_the_way_back() -> None:
    layer, x = nn.Linear(10, 1000, bias=False), torch.zeros(3, 10)
    forward = peak_bytes(lambda: layer(x).detach())
    assert forward == 4 * 3000
    assert peak_bytes(lambda: layer(x).square().sum().backward()) >= forward + 4 * 10_000  # the weight's gradient


def test_explicit_attention_needs_memory_for_all_pairs_and_chunks_do_not() -> None:
    lengths, bytes_of = [256, 512, 1024], {"explicit": [], "chunked": [], "linear": [], "sliding window": []}
    options = {"chunked": {"chunk_size": 64}, "sliding window": {"window": 16}}
    for length in lengths:
        q, k, v = (x[:1, :1] for x in heads(length, 16))
        for name, found in bytes_of.items():
            attend = head_attention(name, 16, **options.get(name, {}))
            with torch.no_grad():
                found.append(peak_bytes(lambda: attend(q, k, v)))  # noqa: B023
    growth = {name: fit_exponent(lengths, found) for name, found in bytes_of.items()}
    assert 1.9 < growth["explicit"] < 2.05
    assert all(growth[name] < 1.1 for name in ("chunked", "linear", "sliding window"))
    assert bytes_of["chunked"][-1] < 0.1 * bytes_of["explicit"][-1]


def test_the_way_back_through_chunks_stays_below_all_pairs_too() -> None:
    q, k, v = (x[:1, :1].requires_grad_() for x in heads(512, 16))
    explicit = peak_bytes(lambda: scaled_dot_product_attention(q, k, v).sum().backward())
    chunked = head_attention("chunked", 16, chunk_size=64)
    assert peak_bytes(lambda: chunked(q, k, v).sum().backward()) < 0.25 * explicit
