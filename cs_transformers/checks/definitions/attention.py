"""Checks of notebook 01: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from cs_transformers import attention

from .probe import FFN, D, H, K, N, Probe, S, T, check


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


@check("1.4")
def _causal_mask(probe: Probe) -> None:
    """Square and other shapes, and the device."""
    with probe.part("values"):
        probe.record("mask", attention.causal_mask(T))
        probe.record("mask with more keys than queries", attention.causal_mask(T, T + 3))
        probe.record("mask with fewer keys than queries", attention.causal_mask(S, S - 2))
    with probe.part("values: the device asked for"):
        probe.record("device", attention.causal_mask(T, device="meta").device.type)
        probe.record("device with more keys than queries", attention.causal_mask(T, S, device="meta").device.type)


@check("1.5")
def _split_and_join_heads(probe: Probe) -> None:
    """Each way by itself, then there and back."""
    joined, split = probe.tensor("joined", N, T, D), probe.tensor("split", N, H, T, K)
    with probe.part("values: split_heads"):
        probe.record("pieces", attention.split_heads(joined, H))
    with probe.part("values: join_heads"):
        probe.record("tokens", attention.join_heads(split))
    with probe.part("gradients"):
        probe.gradients(attention.split_heads(joined, H), joined=joined)
        probe.gradients(attention.join_heads(split), split=split)
    with probe.part("invariant: there and back"):
        probe.record("tokens", attention.join_heads(attention.split_heads(joined, H)))
        probe.record("pieces", attention.split_heads(attention.join_heads(split), H))


@check("1.6")
def _multi_head_attention(probe: Probe) -> None:
    """Three tensors of one length, self-attention, a longer memory; masks; dropout in training."""
    module = probe.fill(attention.MultiHeadAttention(D, H, dropout=0.3))
    query, key, value = probe.tensor("query", N, T, D), probe.tensor("key", N, S, D), probe.tensor("value", N, S, D)
    with probe.part("values"):
        alike = probe.tensor("key of T tokens", N, T, D), probe.tensor("value of T tokens", N, T, D)
        probe.record("out with as many keys as queries", module(query, *alike))
        probe.record("out of self-attention", module(query, query, query))
        probe.record("out", module(query, key, value))
    mask, key_mask = probe.mask("mask", T, S), probe.mask("key mask", N, S)
    with probe.part("values: masks and weights"):
        probe.record("out with attn_mask", module(query, key, value, mask))
        out, weights = module(query, key, value, mask, key_mask=key_mask, need_weights=True)
        probe.record("out with both masks", out)
        probe.record("weights with both masks", weights)
    with probe.part("gradients"):
        probe.gradients(module(query, key, value, mask), module, query=query, key=key, value=value)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("out", module.train()(query, key, value, mask))
        probe.record("out in eval mode", module.eval()(query, key, value, mask))


@check("1.7")
def _fused_projection(probe: Probe) -> None:
    """Three layers of one width, two of different widths, none with a bias; the number of products."""
    x = probe.tensor("x", N, S, D)
    three = probe.fill(nn.ModuleList(nn.Linear(D, D) for _ in range(3)))
    two = probe.fill(nn.ModuleList((nn.Linear(D, K), nn.Linear(D, FFN))))
    bare = probe.fill(nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(2)))
    with probe.part("values"):
        for name, layers in (("three layers", three), ("two widths", two), ("no bias", bare)):
            outputs = attention.fused_projection(x, list(layers))
            probe.record(f"number of outputs, {name}", len(outputs))
            for index, out in enumerate(outputs):
                probe.record(f"output {index}, {name}", out)
    with probe.part("values: one product"), _Products() as products:
        attention.fused_projection(x, list(three))
        probe.record("matrix products", products.count)
    with probe.part("gradients"):
        probe.gradients(torch.cat(attention.fused_projection(x, list(two)), dim=-1), two, x=x)


class _Products(TorchDispatchMode):
    """Counts the matrix products that torch carries out."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.__name__.split(".")[0] in ("mm", "addmm", "bmm", "baddbmm", "linear", "mv", "addmv")
        return function(*args, **(kwargs or {}))


@check("1.8")
def _attention_backward(probe: Probe) -> None:
    """As many keys as queries, then more; no mask, a mask, a row that may see nothing."""
    query, square = probe.tensor("query", N, H, T, K), probe.tensor("key of T tokens", N, H, T, K)
    key, value = probe.tensor("key", N, H, S, K), probe.tensor("value", N, H, S, K)
    upstream, other = probe.tensor("gradient", N, H, T, K), probe.tensor("value of T tokens", N, H, T, K)
    mask = probe.mask("mask", T, S)
    mask[2] = False
    names = ("query", "key", "value")
    for index in (2, 0, 1):
        with probe.part(f"values: by {names[index]}"):
            for case, arguments in (
                ("as many keys as queries", (upstream, query, square, other)),
                ("more keys", (upstream, query, key, value)),
            ):
                probe.record(case, attention.attention_backward(*arguments)[index])
    with probe.part("values: with a mask"):
        for name, gradient in zip(names, attention.attention_backward(upstream, query, key, value, mask), strict=True):
            probe.record(f"by {name}", gradient)
