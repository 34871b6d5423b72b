"""Checks of notebook 07: what is computed on which inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cs_transformers import translation

from .probe import FFN, D, H, N, Probe, S, T, check

SOURCE, TARGET, LENGTH = 9, 7, 8  # words of the two languages, positions


@check("7.1")
def _masks(probe: Probe) -> None:
    """Sentences with padding at their end, in their middle, and nothing else; padding of other ids."""
    src, tgt = probe.integers("src", N, S, low=1, high=SOURCE), probe.integers("tgt", N, T, low=1, high=TARGET)
    src[0, 3:], tgt[1, 2:], tgt[2, 1] = 0, 0, 0
    with probe.part("values: make_src_mask"):
        probe.record("mask of the source", translation.make_src_mask(src))
    with probe.part("values: make_tgt_mask"):
        probe.record("mask of the target", translation.make_tgt_mask(tgt))
    with probe.part("values: another padding"):
        for side, ids in (("src", src), ("tgt", tgt)):
            for row, place in enumerate((2, 3, 1)):
                ids[row, place:] = 5
            ids[:, 0] = 0  # an ordinary word here
            mask = translation.make_src_mask if side == "src" else translation.make_tgt_mask
            probe.record(f"mask of the {side} with padding 5", mask(ids, 5))


def _model(probe: Probe, **options: object) -> translation.TranslationTransformer:
    model = translation.TranslationTransformer(SOURCE, TARGET, D, H, 2, FFN, 0.1, max_length=LENGTH, **options)
    return probe.fill(model)


def _sentences(probe: Probe) -> tuple[Tensor, Tensor]:
    return probe.integers("src", N, S, low=1, high=SOURCE), probe.integers("tgt", N, T, low=1, high=TARGET)


@check("7.2")
def _forward(probe: Probe) -> None:
    """Whole sentences, padded ones, other padding; gradients of what this function connects."""
    model, (src, tgt) = _model(probe), _sentences(probe)
    with probe.part("values"):
        probe.record("logits", model(src, tgt))
    padded_src, padded_tgt = src.clone(), tgt.clone()
    padded_src[0, 3:], padded_src[1, 2:], padded_tgt[2, 2:] = 0, 0, 0
    with probe.part("values: padding"):
        logits, weights = model(padded_src, padded_tgt, need_weights=True)
        probe.record("logits", logits)
        for layer, looked in enumerate(weights):
            probe.record(f"cross-attention of layer {layer}", looked)
    with probe.part("values: two kinds of padding"):
        other_src, other_tgt = padded_src.clone(), padded_tgt.clone()
        other_src[padded_src == 0], other_tgt[padded_tgt == 0] = 4, 3
        other_src[2, 1], other_tgt[0, 1] = 0, 4  # words of these languages
        probe.record("logits", _model(probe, src_pad=4, tgt_pad=3)(other_src, other_tgt))
    with probe.part("gradients"):
        names = ("src_embedding", "tgt_embedding", "src_positions", "tgt_positions", "output", "encoder.layers.1.norm")
        parts = {name: one for name, one in model.named_parameters() if name.startswith(names)}
        probe.gradients(model(padded_src, padded_tgt), parts)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("logits in training", model.train()(src, tgt))
        model.eval()
    with probe.part("invariant: the future stays without effect"):
        later = tgt.clone()
        later[:, 2:] = 1 + later[:, 2:] % (TARGET - 1)
        probe.record("logits before a changed word", model(src, later)[:, :2])
    with probe.part("invariant: the source matters"):
        probe.record("logits of another source", model(1 + src % (SOURCE - 1), tgt))


@check("7.3")
def _label_smoothing(probe: Probe) -> None:
    """Several shares; padding here, everywhere and of another id; a word that is impossible."""
    logits, targets = probe.tensor("logits", N, T, TARGET), probe.integers("targets", N, T, low=1, high=TARGET)
    with probe.part("values"):
        for share in (0.1, 0.4, 0.0):
            loss = translation.label_smoothing_loss(logits, targets, smoothing=share)
            probe.record(f"loss with {share} for the others", loss)
    padded = targets.clone()
    padded[0, 3:], padded[1, 1:] = 0, 0
    with probe.part("values: padding"):
        probe.record("loss with padding", translation.label_smoothing_loss(logits, padded, smoothing=0.2))
        probe.record("loss of nothing", translation.label_smoothing_loss(logits, padded * 0, smoothing=0.2))
        other = torch.where(padded == 0, 3, torch.where(padded == 3, 0, padded))
        probe.record("loss with padding 3", translation.label_smoothing_loss(logits, other, smoothing=0.2, pad=3))
    with probe.part("values: a probability of zero"):
        impossible = logits.detach().clone()
        impossible[:, :, 0] = -math.inf
        loss = translation.label_smoothing_loss(impossible, padded, smoothing=0.2)
        probe.record("loss where padding has probability 0", loss)
    with probe.part("gradients"):
        probe.gradients(translation.label_smoothing_loss(logits, padded, smoothing=0.2), logits=logits)


@check("7.4")
def _noam(probe: Probe) -> None:
    """Rates on both sides of the peak, at the peak, for two widths; and of the first steps."""
    with probe.part("values"):
        for width, warmup, factor in ((512, 4000, 1.0), (64, 10, 2.0)):
            for step in (2, warmup // 2, warmup, warmup + 1, 9 * warmup):
                rate = translation.noam_rate(step, width, warmup=warmup, factor=factor)
                probe.record(f"rate of step {step} of width {width}", float(rate))
    with probe.part("values: the first step"):
        for step in (0, 1):
            probe.record(f"rate of step {step}", float(translation.noam_rate(step, 64, warmup=10)))


@check("7.5")
def _penalty(probe: Probe) -> None:
    """Divisors of short and long translations."""
    with probe.part("values"):
        for length in (1, 2, 7, 40):
            for alpha in (0.0, 0.6, 1.0):
                penalty = float(translation.length_penalty(length, alpha))
                probe.record(f"divisor of {length} words, alpha {alpha}", penalty)
