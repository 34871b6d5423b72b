"""Checks of notebook 04: what is computed on which inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cs_transformers import attention, cache, captioning, decoding

from .probe import D, H, K, N, Probe, S, T, check
from .training import Watch, fate_of_loss, load_weights, record_weights

WORDS = {"<NULL>": 0, "<START>": 1, "<END>": 2, "a": 3, "red": 4, "circle": 5, "square": 6}
WIDTH, VOCABULARY, LENGTH, BEAMS = 8, len(WORDS), 9, 5
START, END, NULL = 5, 3, 2  # for the searches: none of them the first or the last id


@check("4.1")
def _captioning_forward(probe: Probe) -> None:
    """One feature per image, several with padding; gradients of the parts that this function connects."""
    model = probe.fill(captioning.CaptioningTransformer(WORDS, WIDTH, D, H, num_layers=2, max_length=LENGTH))
    features, captions = probe.tensor("features", N, WIDTH), probe.integers("captions", N, T, low=1, high=VOCABULARY)
    with probe.part("values"):
        probe.record("scores", model(features, captions))
    with probe.part("values: several features"):
        grid, real = probe.tensor("grid", N, S, WIDTH), probe.mask("real", N, S)
        probe.record("scores with a grid", model(grid, captions))
        probe.record("scores with padding", model(grid, captions, memory_mask=real))
        placed = captioning.CaptioningTransformer(WORDS, WIDTH, D, H, num_layers=1, memory_positions=(1, S))
        probe.record("scores with positions in the image", probe.fill(placed)(grid, captions))
    with probe.part("gradients"):
        parts = {
            name: parameter
            for name, parameter in model.named_parameters()
            if name.startswith(("visual_projection", "embedding", "output", "transformer.layers.0.norm"))
        }
        probe.gradients(model(features, captions), parts, features=features)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("scores in training", model.train()(features, captions))
        model.eval()
    with probe.part("invariant: the future stays without effect"):
        later = captions.clone()
        later[:, 2:] = 1 + later[:, 2:] % (VOCABULARY - 1)
        probe.record("scores before a changed word", model(features, later)[:, :2])
    with probe.part("invariant: the image matters"):
        probe.record("scores of another image", model(-features, captions))


@check("4.2")
def _caption_loss(probe: Probe) -> None:
    """Captions of several lengths; both means, smoothing, nothing but padding; padding without effect."""
    scores = probe.tensor("scores", N, T, VOCABULARY)
    captions = probe.integers("captions", N, T + 1, low=1, high=VOCABULARY)
    captions[0, 3:], captions[1, 2:] = 0, 0
    with probe.part("values"):
        probe.record("loss", captioning.caption_loss(scores, captions, null=0))
    with probe.part("values: options"):
        smooth = captioning.caption_loss(scores, captions, null=0, label_smoothing=0.2)
        probe.record("loss with label smoothing", smooth)
        probe.record("mean over positions", captioning.caption_loss(scores, captions, null=0, mean_over="positions"))
        probe.record("loss of nothing", captioning.caption_loss(scores, torch.zeros_like(captions), null=0))
    with probe.part("gradients"):
        probe.gradients(captioning.caption_loss(scores, captions, null=0), scores=scores)
    with probe.part("invariant: padding without effect"):
        longer = torch.cat((captions, torch.zeros(N, 2, dtype=torch.int64)), dim=1)
        more = torch.cat((scores, probe.tensor("scores of padding", N, 2, VOCABULARY)), dim=1)
        probe.record("loss of longer rows", captioning.caption_loss(more, longer, null=0))


@check("4.3")
def _extend_cache(probe: Probe) -> None:
    """Two single tokens, then several; and attention step by step."""
    keys = [probe.tensor(f"key {step}", N, H, length, K) for step, length in enumerate((1, 1, 3))]
    values = [probe.tensor(f"value {step}", N, H, length, K) for step, length in enumerate((1, 1, 3))]
    with probe.part("values"):
        memory = cache.KeyValueCache()
        for step, (key, value) in enumerate(zip(keys, values, strict=True)):
            joined = cache.extend_cache(memory, key, value)
            probe.record(f"keys returned by step {step}", joined[0])
            probe.record(f"values returned by step {step}", joined[1])
            probe.record(f"length of the cache after step {step}", memory.length)
            probe.record(f"keys in the cache after step {step}", memory.key)
            probe.record(f"values in the cache after step {step}", memory.value)
    with probe.part("gradients"):
        memory = cache.KeyValueCache()
        cache.extend_cache(memory, keys[0], values[0])
        key, value = cache.extend_cache(memory, keys[2], values[2])
        probe.gradients(torch.cat((key, value), dim=2), key=keys[0], value=values[2])
    with probe.part("invariant: steps give what the whole gives"):
        module = probe.fill(attention.MultiHeadAttention(D, H))
        tokens, memory = probe.tensor("tokens", N, T, D), cache.KeyValueCache()
        for step in range(T):
            token = tokens[:, step : step + 1]
            probe.record(f"out of token {step}", module(token, token, token, cache=memory))


class _Lookup:
    """A model for the searches: its logits depend on the row, the number of words read and the last word."""

    def __init__(self, probe: Probe, name: str, rows: int, length: int, ends: list[int] | None = None) -> None:
        self.table = probe.random(name).standard_normal((rows, length, VOCABULARY, VOCABULARY))
        self.table[..., END] -= 6.0  # ends only where it is told to
        for row, position in enumerate(ends or []):
            self.table[row, position, :, END] += 20.0
        self.table[..., START] += 3.0  # tempting, and never to be chosen
        self.table[..., NULL] += 2.0
        self.rows, self.position, self.calls = torch.arange(rows), 0, 0

    def reorder(self, index: Tensor) -> None:
        self.rows = self.rows[index]

    def __call__(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits = self.table[self.rows.numpy(), self.position, tokens[:, 0].numpy()]
        self.position, self.calls = self.position + 1, self.calls + 1
        return torch.from_numpy(logits), state


def _greedy(probe: Probe, name: str, rows: int, length: int, ends: list[int] | None = None) -> tuple[Any, _Lookup]:
    model = _Lookup(probe, name, rows, length, ends)
    ids = {"start": START, "end": END, "null": NULL}
    return decoding.greedy_decode(model, model, rows, max_length=length, **ids), model


@check("4.4")
def _greedy_decode(probe: Probe) -> None:
    """Sentences without an end, sentences that end at different places, and how often the model is asked."""
    with probe.part("values"):
        # As many rows as words: an argmax over the wrong axis gives numbers here.
        probe.record("words of 7 sentences", _greedy(probe, "square", VOCABULARY, T)[0])
        probe.record("words", _greedy(probe, "table", N, T)[0])
    with probe.part("values: the end, then nothing"):
        probe.record("words", _greedy(probe, "table", N, LENGTH, ends=[4, 1])[0])
    with probe.part("invariant: it stops when all have ended"):
        words, model = _greedy(probe, "table", N, LENGTH, ends=[4, 1, 2])
        probe.record("words", words)
        probe.record("times the model was asked", model.calls)


@check("4.5")
def _beam_step(probe: Probe) -> None:
    """Living hypotheses, finished ones, forbidden words; and whole searches that use the step."""
    logits, scores = probe.tensor("logits", N, BEAMS, VOCABULARY), probe.tensor("scores", N, BEAMS)
    living = torch.zeros(N, BEAMS, dtype=torch.bool)
    with probe.part("values"):
        _record_step(probe, decoding.beam_step(logits, scores, living))
    with probe.part("values: finished and forbidden"):
        finished = living.clone()
        finished[0, 0] = finished[1, 2] = finished[2, 1:] = True
        _record_step(probe, decoding.beam_step(logits, scores, finished), " with finished hypotheses")
        _record_step(
            probe, decoding.beam_step(logits, scores, living, forbidden=(START, NULL)), " with forbidden words"
        )
    with probe.part("invariant: whole searches"):
        for beams in (1, 3, VOCABULARY**2):
            model = _Lookup(probe, "search", N, 3, ends=[1, 2])
            options = {"start": START, "end": END, "null": NULL, "max_length": 3, "beam_size": beams}
            words, best = decoding.beam_search(model, model, N, **options)
            probe.record(f"words with {beams} beams", words)
            probe.record(f"scores with {beams} beams", best)


def _record_step(probe: Probe, step: tuple[Tensor, Tensor, Tensor], case: str = "") -> None:
    best, parents, tokens = step
    alive = torch.isfinite(best)  # where nothing is left to extend, parent and word mean nothing
    probe.record(f"scores{case}", best)
    probe.record(f"parents{case}", parents * alive)
    probe.record(f"words{case}", tokens * alive)


LIMIT, LEARNED = 0.05, "score: the loss falls below 0.05"


@check("4.6")
def _overfit_captions(probe: Probe) -> None:
    """Train on a few captions; another process measures the weights."""
    from cs_transformers.training import recipes

    model, features, captions = _captions_to_learn(probe)
    with Watch(model) as watch:
        with probe.part(LEARNED):
            recipes.overfit_captions(model, features, captions, null=0, steps=200, batch_size=6, seed=probe.seed)
            record_weights(probe, model)
        watch.record(probe)


@check("score 4.6")
def _score_captions(probe: Probe) -> None:
    """The loss of the trained weights in eval mode, by the mean over all positions."""
    model, features, captions = _captions_to_learn(probe)
    with probe.part(LEARNED), torch.no_grad():
        before = _loss_of(model, features, captions)
        moved = load_weights(probe, LEARNED, model)
        probe.record("the training", fate_of_loss(before, _loss_of(model, features, captions), LIMIT, moved))


def _captions_to_learn(probe: Probe) -> tuple[captioning.CaptioningTransformer, Tensor, Tensor]:
    words = {"<NULL>": 0, "<START>": 1, "<END>": 2, **{f"word {index}": index for index in range(3, 20)}}
    model = captioning.CaptioningTransformer(words, 64, 128, num_heads=4, num_layers=1, max_length=LENGTH)
    features = probe.tensor("features to learn", 12, 64).detach().float()
    captions = probe.integers("captions to learn", 12, LENGTH, low=3, high=len(words))
    captions[:, 0], captions[:, -1] = words["<START>"], words["<END>"]
    captions[::3, 6:] = words["<NULL>"]
    return model, features, captions


def _loss_of(model: captioning.CaptioningTransformer, features: Tensor, captions: Tensor) -> float:
    scores = model.eval()(features, captions[:, :-1])
    return captioning.caption_loss(scores, captions, null=0, mean_over="positions").item()
