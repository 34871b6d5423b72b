"""Translation against torch's encoder and decoder with copied weights, loops, closed forms, exhaustive search."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.translation import (
    TranslationState,
    TranslationTransformer,
    label_smoothing_loss,
    length_penalty,
    make_src_mask,
    make_tgt_mask,
    noam_rate,
)

N, S, T, D, H, LAYERS, FFN, V_SRC, V_TGT, LENGTH = 3, 6, 4, 12, 2, 2, 20, 11, 13, 9
START, END = 1, 2
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(seed: int = 0, **options: object) -> TranslationTransformer:
    torch.manual_seed(seed)
    model = TranslationTransformer(
        options.pop("V", V_SRC), options.pop("W", V_TGT), D, H, LAYERS, FFN, 0.1, max_length=LENGTH, **options
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # biases and norms away from 0 and 1
    return model.double().eval()


def sentences(
    rows: int, length: int, vocabulary: int, seed: int, lengths: tuple[int, ...] = (), pad: int = 0
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocabulary, (rows, length), generator=generator)
    for row, real in enumerate(lengths):
        ids[row, real:] = pad
    return ids


def pair(pad: tuple[int, int] = (0, 0)) -> tuple[Tensor, Tensor]:
    return sentences(N, S, V_SRC, 1, (6, 4, 2), pad[0]), sentences(N, T, V_TGT, 2, (3, 4, 2), pad[1])


# ---------------------------------------------------------------- torch's own layers


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.proj.state_dict())


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    copy_attention(ours.self_attn, theirs.self_attn)
    norms = [ours.norm_self, ours.norm_ffn]
    if hasattr(ours, "cross_attn"):
        copy_attention(ours.cross_attn, theirs.multihead_attn)
        norms.insert(1, ours.norm_cross)
    theirs.linear1.load_state_dict(ours.ffn.fc1.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.fc2.state_dict())
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


@contextmanager
def looking(decoder: nn.TransformerDecoder) -> Iterator[list[Tensor]]:
    """Keep the weights of each cross-attention of torch's decoder."""
    seen: list[Tensor] = []

    def ask(_: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False}

    handles = []
    for layer in decoder.layers:
        handles.append(layer.multihead_attn.register_forward_pre_hook(ask, with_kwargs=True))
        handles.append(layer.multihead_attn.register_forward_hook(lambda _m, _a, out: seen.append(out[1])))
    yield seen
    for handle in handles:
        handle.remove()


def by_torch(model: TranslationTransformer, src: Tensor, tgt: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The same model by nn.Transformer: scaled embeddings, positions, layers, no final norm unless pre-norm."""
    first = model.encoder.layers[0]
    options = {
        "norm_first": first.norm_first,
        "activation": "gelu" if isinstance(first.ffn.gelu, nn.GELU) else "relu",
        "batch_first": True,
    }
    # Layers in train mode without dropout: torch's fused path for eval mode is left aside.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor")  # torch on its fused path, which is not asked for
        theirs = nn.Transformer(D, H, LAYERS, LAYERS, FFN, dropout=0.0, dtype=torch.float64, **options)
    with torch.no_grad():
        for ours, stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
            for one, other in zip(ours.layers, stack.layers, strict=True):
                copy_layer(one, other)
            if ours.norm is None:
                stack.norm = None
            else:
                stack.norm.load_state_dict(ours.norm.state_dict())
    embedded = []
    for ids, table, positions in (
        (src, model.src_embedding, model.src_positions),
        (tgt, model.tgt_embedding, model.tgt_positions),
    ):
        embedded.append(table.weight[ids] * D**0.5 + positions.pe[0, : ids.shape[1]].double())
    future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)  # torch: True = blocked
    hidden_src, hidden_tgt = src == model.src_pad, tgt == model.tgt_pad
    with looking(theirs.decoder) as seen:
        out = theirs(
            *embedded,
            tgt_mask=future,
            src_key_padding_mask=hidden_src,
            tgt_key_padding_mask=hidden_tgt,
            memory_key_padding_mask=hidden_src,
        )
    return out @ model.output.weight.T + model.output.bias, seen


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_logits_and_cross_attention_equal_torchs_transformer(norm_first: bool, activation: str, positions: str) -> None:
    model = build(norm_first=norm_first, activation=activation, positions=positions)
    src, tgt = pair()
    logits, weights = model(src, tgt, need_weights=True)
    expected, looked = by_torch(model, src, tgt)
    torch.testing.assert_close(logits, expected, **CLOSE)
    assert len(weights) == len(looked) == LAYERS
    for ours, theirs in zip(weights, looked, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)
    torch.testing.assert_close(model(src, tgt), logits, **CLOSE)


@pytest.mark.parametrize("share", ["target", "all"])
def test_shared_embeddings_are_one_parameter_and_give_what_torch_gives(share: str) -> None:
    model = build(share_embeddings=share, V=V_TGT)
    assert model.output.weight is model.tgt_embedding.weight
    assert (model.src_embedding.weight is model.tgt_embedding.weight) == (share == "all")
    src, tgt = pair()
    torch.testing.assert_close(model(src, tgt), by_torch(model, src, tgt)[0], **CLOSE)


def test_the_tutorials_sizes_have_the_tutorials_number_of_parameters() -> None:
    """9,038,341 with 7,853 and 5,893 words, width 256, 3 + 3 layers and inner width 512."""
    model = TranslationTransformer(7853, 5893, embed_dim=256, num_heads=8, num_layers=3, dim_feedforward=512)
    assert sum(parameter.numel() for parameter in model.parameters()) == 9_038_341


def test_weights_start_with_xaviers_spread() -> None:
    torch.manual_seed(0)
    model = TranslationTransformer(300, 200, 64, 4, 1, 128)
    for name, (rows, columns) in {"src_embedding.weight": (300, 64), "src_positions.pe": (100, 64)}.items():
        values = model.get_parameter(name)
        bound = math.sqrt(6 / (rows + columns))
        assert 0.98 * bound < values.abs().max() <= bound
    assert not torch.equal(model.encoder.layers[0].ffn.fc1.weight, model.decoder.layers[0].ffn.fc1.weight)


# ---------------------------------------------------------------- masks


@pytest.mark.parametrize("pad", [0, 5])
def test_masks_equal_loops(pad: int) -> None:
    src, tgt = sentences(N, S, V_SRC, 3, (6, 4, 2), pad), sentences(N, T, V_TGT, 4, (4, 2, 0), pad)
    by_source, by_target = make_src_mask(src, pad), make_tgt_mask(tgt, pad)
    assert by_source.shape == (N, 1, 1, S)
    assert by_target.shape == (N, 1, T, T)
    assert by_source.dtype == by_target.dtype == torch.bool
    for n in range(N):
        assert by_source[n, 0, 0].tolist() == [int(word) != pad for word in src[n]]
        for t, s in itertools.product(range(T), range(T)):
            assert bool(by_target[n, 0, t, s]) == (int(tgt[n, s]) != pad and s <= t)


def test_padding_is_hidden_as_a_key_and_keeps_its_row_as_a_query() -> None:
    rows = make_tgt_mask(torch.tensor([[1, 2, 3, 0, 0]]))[0, 0]
    assert rows[3].tolist() == rows[4].tolist() == [True, True, True, False, False]
    assert rows.any(dim=1).all()


def test_each_side_is_masked_by_its_own_padding() -> None:
    """Pad 4 in the source and 0 in the target; 0 is a word of the source and 4 one of the target."""
    model = build(src_pad=4, tgt_pad=0)
    src, tgt = torch.tensor([[3, 0, 5, 4, 4, 4]]), torch.tensor([[1, 4, 5, 0]])
    before = model(src, tgt)
    with torch.no_grad():
        model.src_embedding.weight[4] += 1.0
    torch.testing.assert_close(model(src, tgt), before, rtol=0, atol=0)
    with torch.no_grad():
        model.src_embedding.weight[0] += 1.0
    assert (model(src, tgt) - before).abs().max() > 1e-3
    changed = model(src, torch.tensor([[1, 4, 5, 7]]))
    torch.testing.assert_close(changed[:, :3], model(src, tgt)[:, :3], **CLOSE)


# ---------------------------------------------------------------- padding


def test_more_padding_changes_nothing() -> None:
    model = build()
    src, tgt = pair()
    more_src, more_tgt = F.pad(src, (0, 3)), F.pad(tgt, (0, 2))
    logits, weights = model(more_src, more_tgt, need_weights=True)
    alone, looked = model(src, tgt, need_weights=True)
    torch.testing.assert_close(logits[:, :T], alone, **CLOSE)
    for one, other in zip(weights, looked, strict=True):
        assert bool((one[..., S:] == 0).all())
        torch.testing.assert_close(one[:, :, :T, :S], other, **CLOSE)


@pytest.mark.parametrize("beams", [1, 3])
def test_translations_in_a_batch_equal_those_one_by_one(beams: int) -> None:
    model = build()
    src, _ = pair()
    together = model.generate(src, 8, start=START, end=END, beam_size=beams)
    for row in range(N):
        own = src[row : row + 1, : int((src[row] != 0).sum())]
        assert together[row].tolist() == model.generate(own, 8, start=START, end=END, beam_size=beams)[0].tolist()


def test_a_row_of_nothing_but_padding_gives_finite_numbers_and_gradients() -> None:
    model = build()
    src, tgt = pair()
    src[1], tgt[2] = 0, 0
    logits = model(src, tgt)
    assert logits.isfinite().all()
    label_smoothing_loss(logits, tgt).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    torch.testing.assert_close(logits[0], model(src[:1], tgt[:1])[0], **CLOSE)


def test_future_words_do_not_change_the_past_and_the_whole_source_counts() -> None:
    model = build()
    src, tgt = sentences(N, S, V_SRC, 5), sentences(N, T, V_TGT, 6)
    before = model(src, tgt)
    later = tgt.clone()
    later[:, 2:] = 3 + (later[:, 2:] - 2) % (V_TGT - 3)
    torch.testing.assert_close(model(src, later)[:, :2], before[:, :2], **CLOSE)
    assert (model(src, later)[:, 2:] - before[:, 2:]).abs().max() > 1e-3
    for place in range(S):
        other = src.clone()
        other[:, place] = 3 + (other[:, place] - 2) % (V_SRC - 3)
        assert bool(((model(other, tgt) - before).abs().amax(dim=(1, 2)) > 1e-6).all())


def test_dropout_is_off_in_eval_mode_and_acts_in_training() -> None:
    model = build()
    src, tgt = pair()
    torch.testing.assert_close(model(src, tgt), model(src, tgt), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(src, tgt), model(src, tgt))


# ---------------------------------------------------------------- one step at a time


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_every_step_gives_the_logits_of_the_full_pass(positions: str) -> None:
    model = build(positions=positions)
    src, tgt = sentences(N, S, V_SRC, 7, (6, 4, 2)), sentences(N, T, V_TGT, 8)
    full, state = model(src, tgt), model.start_state(src)
    for place in range(T):
        logits, state = model.step(tgt[:, place : place + 1], state)
        torch.testing.assert_close(logits, full[:, place], **CLOSE)
    assert state.length == T


def greedy_by_hand(model: TranslationTransformer, src: Tensor, length: int) -> list[int]:
    """The whole sentence is read anew for every word."""
    words = [START]
    while len(words) <= length and words[-1] != END:
        scores = model(src, torch.tensor([words]))[0, -1]
        scores[[START, model.tgt_pad]] = -math.inf
        words.append(int(scores.argmax()))
    return words[1:] + [model.tgt_pad] * (length + 1 - len(words))


def test_greedy_translation_equals_a_loop_over_full_passes() -> None:
    model = build(3)
    src, _ = pair()
    with torch.no_grad():
        expected = [greedy_by_hand(model, src[row : row + 1], 8) for row in range(N)]
    assert model.generate(src, 8, start=START, end=END).tolist() == expected


def by_exhaustion(model: TranslationTransformer, src: Tensor, length: int, alpha: float) -> list[int]:
    """Score each sentence of up to three words there is by Wu's formula, written out here once more."""
    words = [word for word in range(model.tgt_vocab_size) if word not in (0, START, END)]
    ended = [[*body, END] for n in range(length) for body in itertools.product(words, repeat=n)]
    best, answer = -math.inf, []
    for tokens in ended + [list(body) for body in itertools.product(words, repeat=length)]:
        log_probs = model(src, torch.tensor([[START, *tokens[:-1]]]))[0].log_softmax(dim=-1)
        total = sum(log_probs[place, token].item() for place, token in enumerate(tokens))
        score = total / ((5 + len(tokens)) ** alpha / 6**alpha)
        if score > best:
            best, answer = score, tokens
    return answer + [0] * (length - len(answer))


@pytest.mark.parametrize("alpha", [0.0, 2.5])
def test_enough_beams_find_the_best_translation_by_wus_penalty(alpha: float) -> None:
    model = build(4, V=7, W=6)
    with torch.no_grad():
        model.output.bias[END] += 1.0
        src = sentences(2, 5, 7, 9)
        expected = [by_exhaustion(model, src[row : row + 1], 3, alpha) for row in range(2)]
        found = model.generate(src, 3, start=START, end=END, beam_size=6**3, alpha=alpha)
    assert found.tolist() == expected


def test_a_stronger_penalty_gives_longer_translations() -> None:
    model = build(5)
    with torch.no_grad():
        model.output.bias[END] += 2.0
    src = sentences(8, S, V_SRC, 10)
    lengths = [
        int((model.generate(src, 8, start=START, end=END, beam_size=6, alpha=alpha) != 0).sum())
        for alpha in (0.0, 1.0, 4.0)
    ]
    assert lengths[0] < lengths[2]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("beams", [1, 3])
def test_forbidden_words_are_never_written(beams: int) -> None:
    model = build()
    with torch.no_grad():
        model.output.bias[3] += 20.0
        model.output.bias[END] -= 20.0
    src, _ = pair()
    options = {"start": START, "end": END, "beam_size": beams}
    assert bool((model.generate(src, 5, **options) == 3).all())
    assert not bool((model.generate(src, 5, **options, forbidden=(3,)) == 3).any())
    with pytest.raises(ValueError, match=r"forbid_tokens|special ids must be from 0 to V - 1 = 12"):
        model.generate(src, 5, **options, forbidden=(13,))


def test_generating_leaves_each_module_in_its_mode() -> None:
    model = build().train()
    model.encoder.eval()
    src, _ = pair()
    first, second = (model.generate(src, 5, start=START, end=END).tolist() for _ in range(2))
    assert first == second
    assert model.training
    assert not model.encoder.training
    with pytest.raises(ValueError, match="start, end, null must be three different ids"):
        model.generate(src, 5, start=START, end=START)
    assert model.training


def test_a_translation_without_an_end_is_cut() -> None:
    model = build()
    with torch.no_grad():
        model.output.bias[END] = -1e4
    src, _ = pair()
    for beams in (1, 3):
        found = model.generate(src, 5, start=START, end=END, beam_size=beams)
        assert found.shape == (N, 5)
        assert not bool(((found == END) | (found == START) | (found == 0)).any())


# ---------------------------------------------------------------- label smoothing


def smoothed_by_hand(logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> float:
    V, total, count = logits.shape[-1], 0.0, 0
    for row, target in zip(logits.flatten(0, 1), targets.flatten().tolist(), strict=True):
        if target == pad:
            continue
        count += 1
        log_probs = (row - row.logsumexp(0)).tolist()
        for word in range(V):
            wanted = 0.0 if word == pad else 1 - smoothing if word == target else smoothing / (V - 2)
            if wanted > 0:
                total += wanted * (math.log(wanted) - log_probs[word])
    return total / max(1, count)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("pad", [0, 3])
def test_the_smoothed_loss_equals_its_closed_form(smoothing: float, pad: int) -> None:
    logits, targets = 2 * numbers(N, T, V_TGT, seed=11), sentences(N, T, V_TGT, 12, (4, 2, 1), pad)
    found = label_smoothing_loss(logits, targets, smoothing=smoothing, pad=pad)
    torch.testing.assert_close(found.item(), smoothed_by_hand(logits, targets, smoothing, pad), **CLOSE)


def test_without_smoothing_it_is_torchs_cross_entropy_over_words() -> None:
    logits, targets = numbers(N, T, V_TGT, seed=13), sentences(N, T, V_TGT, 14, (4, 2, 1))
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)
    torch.testing.assert_close(label_smoothing_loss(logits, targets, smoothing=0.0), expected, **CLOSE)


def test_torchs_smoothing_spreads_over_all_words_and_differs() -> None:
    """torch: (1 - e) at the target plus e / V everywhere, and no entropy of the wanted distribution subtracted."""
    logits, targets, share = numbers(N, T, V_TGT, seed=15), sentences(N, T, V_TGT, 16), 0.1
    log_probs = logits.log_softmax(-1)
    right = log_probs.gather(-1, targets[..., None])[..., 0]
    torchs = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=share)
    torch.testing.assert_close(torchs, -((1 - share) * right + share * log_probs.mean(-1)).mean(), **CLOSE)
    others = log_probs.sum(-1) - right - log_probs[..., 0]
    entropy = -(1 - share) * math.log(1 - share) - share * math.log(share / (V_TGT - 2))
    ours = -((1 - share) * right + share / (V_TGT - 2) * others).mean() - entropy
    torch.testing.assert_close(label_smoothing_loss(logits, targets, smoothing=share), ours, **CLOSE)
    assert abs(ours - torchs) > 0.1


def test_it_falls_to_zero_where_the_model_says_what_is_wanted() -> None:
    wanted = torch.full((1, 1, 5), 0.1 / 3, dtype=torch.float64)
    wanted[0, 0, 2], wanted[0, 0, 0] = 0.9, 1e-300
    loss = label_smoothing_loss(wanted.log(), torch.tensor([[2]]), smoothing=0.1)
    assert abs(loss.item()) < 1e-12
    surer = torch.full((1, 1, 5), 1e-6, dtype=torch.float64)
    surer[0, 0, 2] = 1.0
    assert label_smoothing_loss(surer.log(), torch.tensor([[2]]), smoothing=0.1) > 0.1


@pytest.mark.parametrize(("targets", "count"), [([[2, 1, 3]], 3), ([[0]], 0), ([[4]], 1), ([[2, 0, 3], [0, 0, 0]], 2)])
def test_batches_with_and_without_padding_and_of_one_word(targets: list, count: int) -> None:
    ids = torch.tensor(targets)
    logits = torch.zeros(*ids.shape, 5, dtype=torch.float64, requires_grad=True)
    loss = label_smoothing_loss(logits, ids, smoothing=0.4)
    each = 0.6 * math.log(0.6 * 5) + 0.4 * math.log(0.4 / 3 * 5)
    assert loss.item() == pytest.approx(each if count else 0.0, rel=1e-12)
    loss.backward()
    assert logits.grad.isfinite().all()
    assert bool((logits.grad[ids == 0] == 0).all())


def test_a_probability_of_zero_is_infinite_only_where_it_is_wanted() -> None:
    logits = torch.zeros(1, 1, 5, dtype=torch.float64)
    logits[0, 0, 4] = -math.inf
    assert math.isfinite(label_smoothing_loss(logits, torch.tensor([[2]]), smoothing=0.0).item())
    assert label_smoothing_loss(logits, torch.tensor([[2]]), smoothing=0.4).item() == math.inf
    assert label_smoothing_loss(logits, torch.tensor([[4]]), smoothing=0.0).item() == math.inf
    logits[0, 0, 4], logits[0, 0, 0] = 0.0, -math.inf  # nothing is wanted of padding
    loss = label_smoothing_loss(logits, torch.tensor([[2]]), smoothing=0.4)
    assert math.isfinite(loss.item())


def test_the_gradient_is_that_of_central_differences() -> None:
    logits, targets = numbers(2, 3, 5, seed=17).requires_grad_(), torch.tensor([[1, 4, 0], [2, 0, 0]])
    assert torch.autograd.gradcheck(lambda x: label_smoothing_loss(x, targets, smoothing=0.2), logits, atol=1e-7)


def test_four_words_of_a_padded_target_are_scored() -> None:
    """<START> a b c <END> and two of padding: a, b, c and <END> count."""
    target = torch.tensor([[START, 4, 5, 6, END, 0, 0]])
    wanted = target[:, 1:]
    right = F.one_hot(wanted, 7).double() * 50
    assert int((wanted != 0).sum()) == 4
    assert label_smoothing_loss(right, wanted, smoothing=0.0) < 1e-12
    right[0, 3] = F.one_hot(torch.tensor(5), 7) * 50.0  # <END> missed: a quarter of a loss of 50
    assert label_smoothing_loss(right, wanted, smoothing=0.0).item() == pytest.approx(12.5, rel=1e-6)


def test_half_precision_is_summed_in_single() -> None:
    logits, targets = numbers(N, T, V_TGT, seed=18).bfloat16(), sentences(N, T, V_TGT, 19)
    loss = label_smoothing_loss(logits, targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, label_smoothing_loss(logits.float(), targets))


# ---------------------------------------------------------------- rate and penalty


@pytest.mark.parametrize(("step", "rate"), [(1, 1.747e-07), (4000, 6.988e-04), (8000, 4.941e-04)])
def test_noam_gives_the_rates_of_the_paper(step: int, rate: float) -> None:
    assert noam_rate(step, 512) == pytest.approx(rate, rel=1e-3)


def test_noam_rises_in_a_line_peaks_at_the_end_of_the_rise_and_falls_with_the_root() -> None:
    rates = [noam_rate(step, 64, warmup=10, factor=2.0) for step in range(100)]
    assert rates[0] == rates[1] == pytest.approx(2 * 64**-0.5 * 10**-1.5)
    assert rates[7] == pytest.approx(7 * rates[1])
    assert max(range(100), key=rates.__getitem__) == 10
    assert rates[90] == pytest.approx(rates[10] / 3)


@pytest.mark.parametrize(("length", "alpha", "divisor"), [(1, 0.6, 1.0), (7, 1.0, 2.0), (19, 0.5, 2.0), (50, 0.0, 1.0)])
def test_the_length_penalty_is_wus(length: int, alpha: float, divisor: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(divisor, rel=1e-12)


# ---------------------------------------------------------------- errors

SRC, TGT = torch.ones(N, S, dtype=torch.int64), torch.ones(N, T, dtype=torch.int64)
LOGITS = torch.zeros(N, T, 5)
MODEL = build()
WRONG = {
    "mask of no tensor": (lambda: make_src_mask([1]), TypeError, r"make_src_mask: src must be a torch.Tensor"),
    "mask of vectors": (lambda: make_src_mask(LOGITS[0]), TypeError, r"make_src_mask: src must be word ids"),
    "mask of a mask": (lambda: make_tgt_mask(TGT == 1), TypeError, r"make_tgt_mask: tgt must be word ids"),
    "mask of one sentence": (lambda: make_tgt_mask(TGT[0]), ValueError, r"make_tgt_mask: tgt must be of shape \(N, le"),
    "negative pad": (lambda: make_src_mask(SRC, -1), ValueError, r"pad must be a whole number of at least 0"),
    "no words": (lambda: TranslationTransformer(0, 5), ValueError, r"src_vocab_size must be a positive whole number"),
    "pad outside": (lambda: TranslationTransformer(5, 5, tgt_pad=5), ValueError, r"tgt_pad must be an id from 0"),
    "odd positions": (lambda: TranslationTransformer(5, 5, positions="x"), ValueError, r"positions must be one of"),
    "odd sharing": (lambda: TranslationTransformer(5, 5, share_embeddings="x"), ValueError, r"share_embeddings must"),
    "two vocabularies": (
        lambda: TranslationTransformer(5, 6, share_embeddings="all"),
        ValueError,
        r"'none' or 'target' with two vocabularies, got 5 and 6 words",
    ),
    "float ids": (lambda: MODEL(SRC.double(), TGT), TypeError, r"src must be whole numbers"),
    "an id outside": (lambda: MODEL(SRC, TGT + 12), ValueError, r"tgt must be ids of the vocabulary of 13 words"),
    "too long": (
        lambda: MODEL(SRC.repeat(1, 2), TGT),
        ValueError,
        r"src must be of shape \(N, length\) with 1 to max_length = 9 words, got \(3, 12\)",
    ),
    "an empty source": (lambda: MODEL(SRC[:, :0], TGT), ValueError, r"src must be of shape \(N, length\)"),
    "one axis": (lambda: MODEL(SRC[0], TGT), ValueError, r"add the batch axis with ids"),
    "other rows": (lambda: MODEL(SRC, TGT[:2]), ValueError, r"tgt must be of shape \(N, T\) = \(3, any\), got"),
    "another device": (lambda: MODEL(SRC.to("meta"), TGT), ValueError, r"src must be on cpu like the weights"),
    "no state": (lambda: MODEL.step(TGT[:, :1], None), TypeError, r"state must be a TranslationState, got NoneType"),
    "two words a step": (
        lambda: MODEL.step(TGT, MODEL.start_state(SRC)),
        ValueError,
        r"step: tokens must be of shape \(N, T\) = \(3, 1\)",
    ),
    "too many words": (lambda: MODEL.generate(SRC, 10, start=1, end=2), ValueError, r"at most the model's max_length"),
    "no word": (lambda: MODEL.generate(SRC, 0, start=1, end=2), ValueError, r"generate: max_length must be a positive"),
    "no beam": (lambda: MODEL.generate(SRC, 5, start=1, end=2, beam_size=0), ValueError, r"beam_size must be a"),
    "a source of no tensor": (
        lambda: MODEL.generate([[1]], 5, start=1, end=2),
        TypeError,
        r"src must be a torch.Tensor",
    ),
    "two words": (
        lambda: label_smoothing_loss(LOGITS[..., :2], TGT),
        ValueError,
        r"logits must be for at least 3 words, got V = 2",
    ),
    "flat logits": (lambda: label_smoothing_loss(LOGITS[0], TGT), ValueError, r"logits must be of shape \(N, T, V\)"),
    "unshifted": (
        lambda: label_smoothing_loss(LOGITS[:, 1:], TGT),
        ValueError,
        r"targets must be of shape \(N, T\) = \(3, 3\), got \(3, 4\); pass the target without its first word",
    ),
    "a target outside": (lambda: label_smoothing_loss(LOGITS, TGT + 4), ValueError, r"targets must be ids of the voc"),
    "a share of 2": (lambda: label_smoothing_loss(LOGITS, TGT, smoothing=2), ValueError, r"smoothing must be a probab"),
    "pad beyond": (lambda: label_smoothing_loss(LOGITS, TGT, pad=5), ValueError, r"pad must be an id from 0 to 4"),
    "targets elsewhere": (
        lambda: label_smoothing_loss(LOGITS, TGT.to("meta")),
        ValueError,
        r"targets must be on cpu like the logits, got meta",
    ),
    "negative step": (lambda: noam_rate(-1, 8), ValueError, r"step must be a whole number of at least 0"),
    "half a step": (lambda: noam_rate(1.5, 8), TypeError, r"step must be a whole number"),
    "no warm-up": (lambda: noam_rate(1, 8, warmup=0), ValueError, r"warmup must be a positive whole number"),
    "no factor": (lambda: noam_rate(1, 8, factor=0.0), ValueError, r"factor must be a positive number, got 0.0"),
    "a factor of text": (lambda: noam_rate(1, 8, factor="2"), TypeError, r"factor must be a positive number, got '2'"),
    "no length": (lambda: length_penalty(0), ValueError, r"length must be a positive whole number"),
    "negative alpha": (lambda: length_penalty(3, -0.1), ValueError, r"alpha must be a number of at least 0, got -0.1"),
    "alpha of nan": (lambda: length_penalty(3, math.nan), ValueError, r"alpha must be a number of at least 0, got nan"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_to_do(case: str) -> None:
    call, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        call()


def test_a_state_that_is_full_is_refused() -> None:
    state = MODEL.start_state(SRC)
    assert isinstance(state, TranslationState)
    for _ in range(LENGTH):
        MODEL.step(TGT[:, :1], state)
    with pytest.raises(ValueError, match=r"step: state must be at most max_length - 1 = 8 words long, got 9 words"):
        MODEL.step(TGT[:, :1], state)


def test_a_model_on_meta_computes_shapes() -> None:
    with torch.device("meta"):
        model = TranslationTransformer(V_SRC, V_TGT, D, H, 1, FFN)
    assert model(SRC.to("meta"), TGT.to("meta")).shape == (N, T, V_TGT)
