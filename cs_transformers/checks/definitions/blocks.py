"""Checks of notebook 03: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cs_transformers import blocks

from .probe import FFN, D, H, N, Probe, S, T, check


@check("3.1")
def _feed_forward_network(probe: Probe) -> None:
    """Numbers, gradients, dropout, and each token by itself."""
    module = probe.fill(blocks.FeedForwardNetwork(D, FFN, dropout=0.3))
    x = probe.tensor("x", N, T, D)
    with probe.part("values"):
        probe.record("out", module(x))
    with probe.part("gradients"):
        probe.gradients(module(x), module, x=x)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("out", module.train()(x))
        module.eval()
    with probe.part("invariant: each token by itself"):
        probe.record("out for the second token", module(x[:, 1]))


@check("3.2")
def _encoder_post_norm(probe: Probe) -> None:
    """Post-norm: tokens alone, with a mask, with padding and positions."""
    _encoder_layer(probe, norm_first=False)


@check("3.4")
def _encoder_pre_norm(probe: Probe) -> None:
    """Pre-norm: the same, and the identity when both sublayers give zero."""
    layer = _encoder_layer(probe, norm_first=True)
    with probe.part("invariant: zero sublayers change nothing"), torch.no_grad():
        for parameter in (*layer.self_attn.proj.parameters(), *layer.ffn.fc2.parameters()):
            parameter.zero_()
        probe.record("out", layer.eval()(probe.tensor("src", N, T, D)))


def _encoder_layer(probe: Probe, *, norm_first: bool) -> nn.Module:
    layer = probe.fill(blocks.TransformerEncoderLayer(D, H, FFN, dropout=0.3, norm_first=norm_first))
    src, mask = probe.tensor("src", N, T, D), probe.mask("mask", T, T)
    with probe.part("values"):
        probe.record("out", layer(src))
        probe.record("out with a mask", layer(src, mask))
    with probe.part("values: padding and positions"):
        pos, real = probe.tensor("pos", 1, T, D), probe.mask("real", N, T)
        probe.record("out with padding", layer(src, src_key_mask=real))
        probe.record("out with positions", layer(src, mask, pos=pos))
    with probe.part("gradients"):
        probe.gradients(layer(src, mask), layer, src=src)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("out", layer.train()(src, mask))
        layer.eval()
    if not norm_first:
        with probe.part("invariant: order of the tokens"):
            order = torch.from_numpy(probe.random("order").permutation(T))
            probe.record("out for shuffled tokens", layer(src[:, order]))
    return layer


@check("3.3")
def _decoder_post_norm(probe: Probe) -> None:
    """A memory as long as the target, then a longer one; masks, padding, positions; the future stays without effect."""
    layer = probe.fill(blocks.TransformerDecoderLayer(D, H, FFN, dropout=0.3))
    tgt, memory = probe.tensor("tgt", N, T, D), probe.tensor("memory", N, S, D)
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    with probe.part("values"):
        probe.record("out with a memory of T tokens", layer(tgt, probe.tensor("memory of T tokens", N, T, D), causal))
        probe.record("out", layer(tgt, memory, causal))
    with probe.part("values: masks and positions"):
        memory_mask, real = probe.mask("memory mask", T, S), probe.mask("real", N, S)
        probe.record("out with a memory mask", layer(tgt, memory, memory_mask=memory_mask))
        probe.record("out with padding", layer(tgt, memory, causal, memory_key_mask=real))
        places = {"query_pos": probe.tensor("query pos", T, D), "memory_pos": probe.tensor("memory pos", S, D)}
        probe.record("out with positions", layer(tgt, memory, causal, **places))
    with probe.part("gradients"):
        probe.gradients(layer(tgt, memory, causal), layer, tgt=tgt, memory=memory)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("out", layer.train()(tgt, memory, causal))
        layer.eval()
    with probe.part("invariant: the future stays without effect"):
        later = tgt.detach().clone()
        later[:, 2:] += 1.0
        probe.record("out before a changed token", layer(later, memory, causal)[:, :2])


@check("3.5")
def _clone_layers(probe: Probe) -> None:
    """How many copies, how many parameters of their own, and that they start alike."""
    with probe.part("values"):
        pattern = probe.fill(nn.Sequential(nn.Linear(D, FFN), nn.GELU(), nn.Linear(FFN, D)))
        stack = blocks.clone_layers(pattern, 3)
        probe.record("kind of list", type(stack).__name__)
        probe.record("copies", len(stack))
        probe.record("modules", len({id(layer) for layer in stack}))
        probe.record("parameters that torch finds", sum(1 for _ in nn.Sequential(*stack).parameters()))
        probe.record("tensors of their own", len(_storages(stack) - _storages([pattern])))
        x = probe.tensor("x", N, D)
        for index, layer in enumerate(stack):
            probe.record(f"out of copy {index}", layer(x))
        with torch.no_grad():
            stack[0][0].weight.zero_()
        probe.record("out of the last copy after a change of the first", stack[len(stack) - 1](x))


def _storages(layers: list[nn.Module] | nn.ModuleList) -> set[int]:
    tensors: list[Tensor] = [parameter for layer in layers for parameter in layer.parameters()]
    return {tensor.data_ptr() for tensor in tensors}
