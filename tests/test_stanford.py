"""Stanford's published numbers come out: same seed, same order of construction, eval mode.

The values stand in ``stanford_values.json`` beside the way each was made. They depend on torch's generator and on
the order in which submodules draw their weights, so they are tested here alone; no check of the course uses them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cs_transformers.attention import MultiHeadAttention
from cs_transformers.blocks import TransformerDecoderLayer, TransformerEncoderLayer
from cs_transformers.captioning import CaptioningTransformer
from cs_transformers.numerics import relative_error
from cs_transformers.positional import PositionalEncoding
from cs_transformers.vit import PatchEmbedding, VisionTransformer

PUBLISHED = json.loads((Path(__file__).parent / "stanford_values.json").read_text(encoding="utf-8"))["checks"]
FOUR_DIGITS = {"mha_self", "mha_masked", "mha_two_inputs", "pe"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(231)


def assert_published(got: Tensor, name: str) -> None:
    """Compare with digits as printed: values with four by half a digit, those with eight up to float32 rounding."""
    entry = PUBLISHED[name]
    expected = torch.tensor(entry["expected"], dtype=got.dtype)
    assert list(got.shape) == entry["shape"]
    four_digits = name in FOUR_DIGITS
    if four_digits or got.dtype == torch.float64:
        assert relative_error(got, expected) < entry["tolerance"]
    torch.testing.assert_close(got, expected, rtol=0.0 if four_digits else 1e-4, atol=6e-5 if four_digits else 1e-6)


def assert_published_model(model: nn.Module, inputs: tuple[Tensor, ...], name: str) -> None:
    """In float32, and with the same weights in float64, where the published limit leaves room for no rounding."""
    assert_published(model(*inputs), name)
    precise = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    assert_published(model.double()(*precise), name)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(need_weights: bool) -> None:
    attn = MultiHeadAttention(8, num_heads=2).eval()

    def attend(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        out = attn(query=query, key=key, value=value, attn_mask=attn_mask, need_weights=need_weights)
        return out[0] if need_weights else out

    data = torch.randn(1, 3, 8)
    assert_published(attend(data, data, data), "mha_self")
    mask = torch.randn(3, 3) < 0.5
    assert_published(attend(data, data, data, mask), "mha_masked")
    other = torch.randn(1, 3, 8)
    assert_published(attend(data, other, other), "mha_two_inputs")


def test_positional_encoding() -> None:
    data = torch.randn(1, 2, 6)
    assert_published(PositionalEncoding(6).eval()(data), "pe")


def test_decoder_layer() -> None:
    layer = TransformerDecoderLayer(12, 2, 48).eval()
    tgt, memory = torch.randn(1, 4, 12), torch.randn(1, 5, 12)
    assert_published_model(layer, (tgt, memory, torch.randn(4, 4) < 0.5), "decoder_layer")


def test_encoder_layer() -> None:
    layer = TransformerEncoderLayer(12, 2, 48).eval()
    assert_published_model(layer, (torch.randn(1, 4, 12), torch.randn(4, 4) < 0.5), "encoder_layer")


def test_captioning_transformer() -> None:
    words = {"<NULL>": 0, "cat": 2, "dog": 3}
    model = CaptioningTransformer(words, input_dim=20, wordvec_dim=30, num_heads=2, num_layers=2, max_length=30).eval()
    features = torch.randn(4, 20)
    assert_published_model(model, (features, torch.randint(0, len(words), (4, 3))), "captioner")


def test_patch_embedding() -> None:
    embed = PatchEmbedding(img_size=16, patch_size=8, embed_dim=8)
    assert_published_model(embed, (torch.randn(2, 3, 16, 16),), "patch_embedding")


def test_vision_transformer() -> None:
    images = torch.randn(3, 3, 32, 32)
    model = VisionTransformer().eval()
    assert sum(parameter.numel() for parameter in model.parameters()) == 820_874
    assert_published_model(model, (images,), "vit")
