"""What is stored: fresh, free of pickles, and equal to what torch itself computes on the same inputs."""

from __future__ import annotations

import math
import zipfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers import attention, blocks, vit
from cs_transformers.checks import EXERCISES, references
from cs_transformers.checks.comparison import compare_values, size_of
from cs_transformers.checks.definitions.probe import FFN, D, H, K, N, Probe, S, T
from cs_transformers.checks.references import Reference

CODED = [id for id, one in EXERCISES.items() if one.parts]
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()


@pytest.fixture
def probe() -> Probe:
    return Probe(references.SEED)


def stored(id: str, key: str) -> Tensor:
    return torch.from_numpy(references.load(id).expected.arrays[key])


def assert_stored(id: str, key: str, expected: Tensor) -> None:
    torch.testing.assert_close(stored(id, key), expected.detach(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("id", CODED)
def test_a_reference_holds_every_part_and_nothing_that_needs_unpickling(id: str) -> None:
    reference = references.load(id)
    for part in EXERCISES[id].parts:
        assert any(key.startswith(part + "/") for key in reference.expected.kinds), part
    with zipfile.ZipFile(references.path_of(id)) as archive:
        for name in archive.namelist():
            assert b"'descr': '|O'" not in archive.read(name)[:200]
    assert references.path_of(id).stat().st_size < 200_000


def test_references_exist_for_exercises_only() -> None:
    assert {path.stem for path in references.FOLDER.iterdir()} == {id.replace(".", "_") for id in CODED}


def test_equal_content_gives_equal_bytes(tmp_path) -> None:
    reference = references.load("1.1")
    one, other = references.save("1.1", reference, tmp_path / "a"), references.save("1.1", reference, tmp_path / "b")
    assert one.read_bytes() == other.read_bytes() == references.path_of("1.1").read_bytes()
    assert not list(tmp_path.rglob("*.partial"))


def test_what_is_saved_comes_back(tmp_path) -> None:
    reference = references.load("1.5")
    references.save("1.5", reference, tmp_path)
    again: Reference = references.load("1.5", tmp_path)
    assert again.fingerprints == reference.fingerprints
    assert again.expected.kinds == reference.expected.kinds
    assert again.expected.arrays.keys() == reference.expected.arrays.keys()


def test_a_missing_or_damaged_file_names_itself_and_the_command_that_mends_it(tmp_path) -> None:
    with pytest.raises(
        ValueError,
        match=r"reference of exercise 1\.1: expected a readable 1_1\.npz, got FileNotFound.*cst refresh 1\.1",
    ):
        references.load("1.1", tmp_path)
    np.savez(references.path_of("1.1", tmp_path), text=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="expected a readable 1_1"):
        references.load("1.1", tmp_path)


def heads(probe: Probe) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    query, key = probe.tensor("query", N, H, T, K), probe.tensor("key", N, H, S, K)
    return query, key, probe.tensor("value", N, H, S, K), probe.mask("mask", T, S)


def test_1_1_and_1_2_are_loops_over_scalars(probe: Probe) -> None:
    query, key = (tensor.detach() for tensor in heads(probe)[:2])
    saved = probe.tensor("scores", N, H, T, S, scale=2.0).detach()
    scores = torch.zeros(N, H, T, S, dtype=torch.float64)
    mask = probe.mask("mask", T, S)
    mask[1] = False
    weights = torch.zeros_like(scores)
    for n, h, t in np.ndindex(N, H, T):
        for s in range(S):
            scores[n, h, t, s] = sum(query[n, h, t, k] * key[n, h, s, k] for k in range(K)) / math.sqrt(K)
        total = sum(math.exp(saved[n, h, t, s]) for s in range(S) if mask[t, s])
        for s in range(S):
            weights[n, h, t, s] = math.exp(saved[n, h, t, s]) / total if mask[t, s] else 0.0
    assert_stored("1.1", "values/scores", scores)
    assert_stored("1.2", "values: rows that see nothing/weights", weights)


def test_1_3_is_torchs_own_attention(probe: Probe) -> None:
    query, key, value, mask = heads(probe)
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert_stored("1.3", "values/out with a mask", out)
    upstream = probe.tensor("upstream", *out.shape).detach()
    for name, gradient in zip(
        ("query", "key", "value"), torch.autograd.grad(out, (query, key, value), upstream), strict=True
    ):
        assert_stored("1.3", f"gradients/gradient of {name}", gradient)


def torch_attention(module: attention.MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64).eval()
    layers = (module.query, module.key, module.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
        theirs.out_proj.load_state_dict(module.proj.state_dict())
    return theirs


def test_1_6_is_torchs_own_module(probe: Probe) -> None:
    theirs = torch_attention(probe.fill(attention.MultiHeadAttention(D, H)))
    query, key, value = probe.tensor("query", N, T, D), probe.tensor("key", N, S, D), probe.tensor("value", N, S, D)
    mask, real = probe.mask("mask", T, S), probe.mask("key mask", N, S)
    assert_stored("1.6", "values/out", theirs(query, key, value)[0])
    assert_stored("1.6", "values: masks and weights/out with attn_mask", theirs(query, key, value, attn_mask=~mask)[0])
    options = {"attn_mask": ~mask, "key_padding_mask": ~real, "average_attn_weights": False}
    out, weights = theirs(query, key, value, **options)
    assert_stored("1.6", "values: masks and weights/out with both masks", out)
    assert_stored("1.6", "values: masks and weights/weights with both masks", weights)


def test_1_8_is_what_central_differences_measure(probe: Probe) -> None:
    inputs = [tensor.detach() for tensor in heads(probe)[:3]]
    upstream, step = probe.tensor("gradient", N, H, T, K).detach(), 1e-6
    for index, name in enumerate(("query", "key", "value")):
        measured = torch.zeros_like(inputs[index])
        for place in np.ndindex(*measured.shape):
            ends = []
            for sign in (1, -1):
                moved = [tensor.clone() for tensor in inputs]
                moved[index][place] += sign * step
                ends.append((F.scaled_dot_product_attention(*moved) * upstream).sum())
            measured[place] = (ends[0] - ends[1]) / (2 * step)
        expected = stored("1.8", f"values: by {name}/more keys")
        assert (measured - expected).abs().max() < 1e-7 * size_of(expected.numpy()) * 10


def test_2_1_and_2_3_are_loops_over_scalars(probe: Probe) -> None:
    table = torch.zeros(9, D, dtype=torch.float64)
    for t, k in np.ndindex(9, D // 2):
        angle = t / 10000 ** (2 * k / D)
        table[t, 2 * k], table[t, 2 * k + 1] = math.sin(angle), math.cos(angle)
    assert_stored("2.1", "values/table", table)
    x = probe.tensor("x", N, H, T, K).detach()
    turned = torch.zeros_like(x)
    for n, h, t, k in np.ndindex(N, H, T, K // 2):
        point = complex(x[n, h, t, 2 * k], x[n, h, t, 2 * k + 1]) * np.exp(1j * t / 10000 ** (2 * k / K))
        turned[n, h, t, 2 * k], turned[n, h, t, 2 * k + 1] = point.real, point.imag
    assert_stored("2.3", "values/turned", turned)


def torch_layer(kind: type[nn.Module], ours: nn.Module, norms: dict[str, str], **options: object) -> nn.Module:
    theirs = kind(D, H, FFN, dropout=0.0, activation="gelu", batch_first=True, dtype=torch.float64, **options)
    for name in ("self_attn", "cross_attn"):
        if hasattr(ours, name):
            target = theirs.self_attn if name == "self_attn" else theirs.multihead_attn
            target.load_state_dict(torch_attention(getattr(ours, name)).state_dict())
    theirs.linear1.load_state_dict(ours.ffn.fc1.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.fc2.state_dict())
    for mine, other in norms.items():
        getattr(theirs, other).load_state_dict(getattr(ours, mine).state_dict())
    return theirs


@pytest.mark.parametrize(("id", "norm_first"), [("3.2", False), ("3.4", True)])
def test_3_2_and_3_4_are_torchs_own_encoder_layer(probe: Probe, id: str, norm_first: bool) -> None:
    ours = probe.fill(blocks.TransformerEncoderLayer(D, H, FFN))
    norms = {"norm_self": "norm1", "norm_ffn": "norm2"}
    theirs = torch_layer(nn.TransformerEncoderLayer, ours, norms, norm_first=norm_first)
    src, mask = probe.tensor("src", N, T, D), probe.mask("mask", T, T)
    assert_stored(id, "values/out with a mask", theirs(src, src_mask=~mask))
    padded = theirs(src, src_key_padding_mask=~probe.mask("real", N, T))
    assert_stored(id, "values: padding and positions/out with padding", padded)


def test_3_3_is_torchs_own_decoder_layer(probe: Probe) -> None:
    ours = probe.fill(blocks.TransformerDecoderLayer(D, H, FFN))
    norms = {"norm_self": "norm1", "norm_cross": "norm2", "norm_ffn": "norm3"}
    theirs = torch_layer(nn.TransformerDecoderLayer, ours, norms)
    tgt, memory = probe.tensor("tgt", N, T, D), probe.tensor("memory", N, S, D)
    assert_stored("3.3", "values/out", theirs(tgt, memory, tgt_mask=~CAUSAL))
    padded = theirs(tgt, memory, tgt_mask=~CAUSAL, memory_key_padding_mask=~probe.mask("real", N, S))
    assert_stored("3.3", "values: masks and positions/out with padding", padded)


def test_4_2_is_a_sum_of_single_surprises(probe: Probe) -> None:
    scores, captions = probe.tensor("scores", N, T, 7).detach(), probe.integers("captions", N, T + 1, low=1, high=7)
    captions[0, 3:], captions[1, 2:] = 0, 0
    words = [(n, t) for n, t in np.ndindex(N, T) if captions[n, t + 1]]
    total = sum(-math.log(math.exp(scores[n, t, captions[n, t + 1]]) / scores[n, t].exp().sum()) for n, t in words)
    assert_stored("4.2", "values/loss", torch.tensor(total / len(words), dtype=torch.float64))


def test_4_5_finds_what_trying_everything_finds(probe: Probe) -> None:
    logits, scores = probe.tensor("logits", N, 5, 7).detach(), probe.tensor("scores", N, 5).detach()
    for n in range(N):
        log_probs = logits[n].log_softmax(-1)
        tried = sorted(((scores[n, b] + log_probs[b, v]).item(), b, v) for b, v in np.ndindex(5, 7))[::-1][:5]
        assert [parent for _, parent, _ in tried] == stored("4.5", "values/parents")[n].tolist()
        assert [word for _, _, word in tried] == stored("4.5", "values/words")[n].tolist()


def test_5_1_is_a_convolution_whose_stride_is_the_patch(probe: Probe) -> None:
    module = probe.fill(vit.PatchEmbedding((4, 9), (2, 3), 3, D))
    kernel = module.proj.weight.view(D, 3, 2, 3)
    tokens = F.conv2d(probe.tensor("flat", N, 3, 4, 9), kernel, module.proj.bias, stride=(2, 3))
    assert_stored("5.1", "values: rectangles/tokens of wide patches", tokens.flatten(2).transpose(1, 2))


def test_6_3_are_the_four_published_ratios() -> None:
    for size in ("small", "large"):
        got = {
            "width": stored("6.3", f"values: width and depth/width of the {size} model").item(),
            "depth": stored("6.3", f"values: width and depth/depth of the {size} model").item(),
            "side": stored("6.3", f"values: image and patch/image_side of the {size} model").item(),
            "patch": stored("6.3", f"values: image and patch/patch_size of the {size} model").item(),
        }
        assert got == {"width": 2, "depth": 2, "side": 16, "patch": 1 / 16}


@pytest.mark.parametrize("name", ["query", "scores", "upstream"])
def test_the_stream_of_inputs_is_frozen(name: str) -> None:
    """The first numbers of three inputs, written down once: if they move, every stored reference is void."""
    first = {"query": -0.08186363981374012, "scores": 0.9671115943944467, "upstream": -1.6525700684336073}
    assert Probe(231).tensor(name, 2).detach()[0].item() == pytest.approx(first[name], abs=1e-12)


def test_inputs_depend_on_seed_and_name_only() -> None:
    one = Probe(231)
    one.tensor("another", 5)
    assert torch.equal(one.tensor("query", 3), Probe(231).tensor("query", 3))
    assert not torch.equal(Probe(231).tensor("query", 3), Probe(232).tensor("query", 3))
    assert not torch.equal(Probe(231).tensor("query", 3), Probe(231).tensor("key", 3))


def test_weights_depend_on_names_and_shapes_and_not_on_the_order_of_construction() -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second, self.first = nn.Linear(3, 2), nn.Linear(4, 3)

    one, other = nn.ModuleDict({"first": nn.Linear(4, 3), "second": nn.Linear(3, 2)}), Other()
    torch.manual_seed(1)
    Probe(7).fill(one)
    torch.manual_seed(2)
    Probe(7).fill(other)
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, other.get_parameter(name))
    assert not one.training
    assert compare_values(one["first"].bias.detach().numpy(), np.zeros(3)) is not None, "no bias is left at zero"
