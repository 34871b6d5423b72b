"""Checks of notebook 01: what is computed on which inputs."""

from __future__ import annotations

import torch

from cs_transformers import attention

from .probe import H, K, N, Probe, S, T, check


@check("1.1")
def _attention_scores(probe: Probe) -> None:
    """Numbers, gradients, and a spread that does not grow with the width."""
    query, key = probe.tensor("query", N, H, T, K), probe.tensor("key", N, H, S, K)
    square = probe.tensor("square", N, H, K, K)  # as many keys as columns: a forgotten transpose gives numbers here
    with probe.part("values"):
        probe.record("scores of K keys", attention.attention_scores(query, square))
        probe.record("scores", attention.attention_scores(query, key))
    with probe.part("gradients"):
        probe.gradients(attention.attention_scores(query, key), query=query, key=key)
    with probe.part("invariant: spread at every width"):
        for width in (4, 64):
            wide, other = probe.tensor(f"query {width}", 1, 1, 50, width), probe.tensor(f"key {width}", 1, 1, 60, width)
            probe.record(f"spread at width {width}", attention.attention_scores(wide, other).std())


@check("1.2")
def _attention_weights(probe: Probe) -> None:
    """Without a mask, with one, and with rows that may see nothing."""
    scores, mask = probe.tensor("scores", N, H, T, S, scale=2.0), probe.mask("mask", T, S)
    dead = mask.clone()
    dead[1] = False
    with probe.part("values: no mask"):
        probe.record("weights", attention.attention_weights(scores))
    with probe.part("values: with a mask"):
        probe.record("weights", attention.attention_weights(scores, mask))
        per_batch = probe.mask("mask of each batch", N, T, S)
        probe.record("weights, a mask for each batch", attention.attention_weights(scores, per_batch))
    with probe.part("values: rows that see nothing"):
        probe.record("weights", attention.attention_weights(scores, dead))
        # -1e9 is not minus infinity: next to scores of this size it blocks nothing.
        probe.record("weights of huge scores", attention.attention_weights(scores - 2e9, mask))
    with probe.part("gradients"):
        probe.gradients(attention.attention_weights(scores, mask), scores=scores)
        probe.gradients(attention.attention_weights(scores, dead), {"scores where a row sees nothing": scores})
    with probe.part("invariant: rows sum to 1"):
        probe.record("sum of each row", attention.attention_weights(scores, mask).sum(-1))


@check("1.3")
def _scaled_dot_product_attention(probe: Probe) -> None:
    """The mix, the weights on request, where dropout acts."""
    query, key = probe.tensor("query", N, H, T, K), probe.tensor("key", N, H, S, K)
    value, mask = probe.tensor("value", N, H, S, K), probe.mask("mask", T, S)
    attend = attention.scaled_dot_product_attention
    with probe.part("values"):
        probe.record("out", attend(query, key, value))
        out, weights = attend(query, key, value, mask, need_weights=True)
        probe.record("out with a mask", out)
        probe.record("weights with a mask", weights)
    with probe.part("gradients"):
        probe.gradients(attend(query, key, value, mask), query=query, key=key, value=value)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        out, weights = attend(query, key, value, mask, 0.3, need_weights=True)
        probe.record("out with dropout", out)
        probe.record("returned weights", weights)
    with probe.part("invariant: order of the keys"):
        order = torch.from_numpy(probe.random("order").permutation(S))
        probe.record("out", attend(query, key[:, :, order], value[:, :, order], mask[:, order]))
