"""Checks of notebook 02: what is computed on which inputs."""

from __future__ import annotations

from cs_transformers import positional

from .probe import D, H, K, N, Probe, S, T, check

MAX_LEN = 9


@check("2.1")
def _sinusoidal_table(probe: Probe) -> None:
    """A small table, rows far out, and the products of its rows."""
    with probe.part("values"):
        probe.record("table", positional.sinusoidal_table(MAX_LEN, D))
        probe.record("narrow table", positional.sinusoidal_table(S, 2))
    with probe.part("values: far positions"):
        probe.record("row 4999 at width 64", positional.sinusoidal_table(5000, 64)[4999])
    with probe.part("invariant: distance alone decides"):
        table = positional.sinusoidal_table(MAX_LEN, D)
        probe.record("products of the rows", table @ table.T)


@check("2.2")
def _positional_encoding(probe: Probe) -> None:
    """All positions, fewer, some from a later start on; where dropout acts."""
    module = positional.PositionalEncoding(D, dropout=0.3, max_len=MAX_LEN).double().eval()
    whole, x = probe.tensor("x of max_len tokens", N, MAX_LEN, D), probe.tensor("x", N, T, D)
    with probe.part("values"):
        probe.record("out for max_len tokens", module(whole))
        probe.record("out for fewer tokens", module(x))
    with probe.part("values: a later start"):
        probe.record("out of one token at position 3", module(x[:, :1], start=3))
        probe.record("out from position 3 on", module(x, start=3))
    with probe.part("gradients"):
        probe.gradients(module(x), x=x)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("out in training", module.train()(x))


@check("2.3")
def _apply_rotary(probe: Probe) -> None:
    """Turned vectors, their gradients, and products that see the distance alone."""
    x = probe.tensor("x", N, H, T, K)
    with probe.part("values"):
        probe.record("turned", positional.apply_rotary(x))
        probe.record("turned from position 5 on", positional.apply_rotary(x, start=5))
    with probe.part("gradients"):
        probe.gradients(positional.apply_rotary(x), x=x)
    with probe.part("invariant: distance alone decides"):
        query, key = probe.tensor("query", 1, K), probe.tensor("key", 1, K)
        for start in (0, 4, 11):
            turned = positional.apply_rotary(query, start=start), positional.apply_rotary(key, start=start + 3)
            probe.record(f"product at {start} and {start + 3}", (turned[0] * turned[1]).sum())
