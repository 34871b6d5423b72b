"""Texture transfer against loops over places and pixels, torchvision's VGG-19, and what a search must do."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.restoration import bicubic
from cs_transformers.texture import (
    CrossScale,
    TextureExtractor,
    TextureTransformer,
    best_match,
    hard_index,
    perceptual_loss,
    relevance,
    transfer_texture,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SMALL = {"features": 6, "res_blocks": (1, 0, 2, 1), "extractor_channels": (4, 5, 7)}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pixels(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(**options: object) -> TextureTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = TextureTransformer(**{**SMALL, **options}).double()
        for parameter in model.last.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model.eval()


def patch(x: Tensor, y: int, column: int) -> Tensor:
    """The 3 x 3 patch around a place, zeros beyond the border, by hand."""
    found = x.new_zeros(x.shape[0], 3, 3)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if 0 <= y + dy < x.shape[1] and 0 <= column + dx < x.shape[2]:
                found[:, dy + 1, dx + 1] = x[:, y + dy, column + dx]
    return found.flatten()


# --- search


def test_relevance_equals_loops_over_places() -> None:
    query, key = noise(2, 3, 4, 5), noise(2, 3, 3, 6, seed=1)
    scores = relevance(query, key)
    assert scores.shape == (2, 20, 18)
    for n in range(2):
        for p in range(20):
            for r in range(18):
                one, other = patch(query[n], *divmod(p, 5)), patch(key[n], *divmod(r, 6))
                assert scores[n, p, r].item() == pytest.approx(F.cosine_similarity(one, other, dim=0).item(), abs=1e-9)


def test_an_image_finds_itself_with_certainty() -> None:
    features = noise(2, 5, 6, 7)
    strength, index = hard_index(relevance(features, features))
    assert index.tolist() == [list(range(42))] * 2
    torch.testing.assert_close(strength, torch.ones(2, 42, dtype=torch.float64), **CLOSE)


def test_brightness_of_the_features_does_not_change_the_search() -> None:
    query, key = noise(1, 5, 6, 7), noise(1, 5, 6, 7, seed=1)
    torch.testing.assert_close(relevance(3 * query, 0.1 * key), relevance(query, key), **CLOSE)
    assert relevance(query, key).abs().max() <= 1 + 1e-12


@pytest.mark.parametrize("max_scores", [1, 300, 500, 10_000])
def test_a_search_in_parts_equals_the_search_at_once(max_scores: int) -> None:
    query, key = noise(2, 3, 7, 5).requires_grad_(), noise(2, 3, 4, 6, seed=1).requires_grad_()
    strength, index = best_match(query, key, max_scores=max_scores)
    whole_strength, whole_index = hard_index(relevance(query, key))
    torch.testing.assert_close(strength, whole_strength, **CLOSE)
    assert torch.equal(index, whole_index)
    upstream = noise(2, 35, seed=2)
    ours = torch.autograd.grad((strength * upstream).sum(), (query, key))
    theirs = torch.autograd.grad((whole_strength * upstream).sum(), (query, key))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_a_search_in_parts_never_holds_more_scores_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    from cs_transformers import texture

    sizes, plain = [], texture.relevance

    def watched(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        scores = plain(query, key)
        sizes.append(scores[0].numel())
        return scores

    monkeypatch.setattr(texture, "relevance", watched)
    best_match(noise(2, 3, 9, 5), noise(2, 3, 8, 8, seed=1), max_scores=1600)  # five rows of the nine at once
    assert sizes == [4 * 320, 5 * 320, 4 * 320]  # with the rows that patches reach into


# --- transfer


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_transfer_equals_loops_over_pixels(factor: int) -> None:
    (h, w), (hr, wr) = (3, 4), (4, 2)
    value = noise(2, 3, factor * hr, factor * wr)
    index = torch.randint(hr * wr, (2, h * w), generator=torch.Generator().manual_seed(3))
    total, count = (
        torch.zeros(2, 3, factor * h, factor * w, dtype=torch.float64),
        torch.zeros(2, 1, factor * h, factor * w),
    )
    for n in range(2):
        for p in range(h * w):
            (y, x), (yr, xr) = divmod(p, w), divmod(int(index[n, p]), wr)
            for dy in range(-factor, 2 * factor):
                for dx in range(-factor, 2 * factor):
                    to, source = (factor * y + dy, factor * x + dx), (factor * yr + dy, factor * xr + dx)
                    inside = 0 <= to[0] < factor * h and 0 <= to[1] < factor * w
                    if inside and 0 <= source[0] < factor * hr and 0 <= source[1] < factor * wr:
                        total[n, :, to[0], to[1]] += value[n, :, source[0], source[1]]
                        count[n, :, to[0], to[1]] += 1
    assert (count >= 1).all()
    torch.testing.assert_close(transfer_texture(value, index, (h, w), factor), total / count, **CLOSE)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_constants_stay_constant_up_to_the_border(factor: int) -> None:
    index = torch.randint(20, (3, 42), generator=torch.Generator().manual_seed(3))
    level = torch.tensor([0.3, -2.0], dtype=torch.float64).view(1, 2, 1, 1).expand(3, 2, factor * 4, factor * 5)
    moved = transfer_texture(level, index, (6, 7), factor)
    torch.testing.assert_close(moved, level[:, :, :1, :1].expand_as(moved), **CLOSE)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_every_place_taken_from_itself_gives_the_reference_back(factor: int) -> None:
    value = noise(2, 3, 5 * factor, 6 * factor)
    itself = torch.arange(30).expand(2, 30)
    torch.testing.assert_close(transfer_texture(value, itself, (5, 6), factor), value, **CLOSE)


def test_gradients_reach_the_reference_and_equal_central_differences() -> None:
    value = noise(1, 2, 6, 4).requires_grad_()
    index = torch.tensor([[0, 5, 3, 3, 1, 2]])
    assert torch.autograd.gradcheck(lambda v: transfer_texture(v, index, (2, 3), 2), value)


# --- the extractor


def test_the_extractor_is_the_start_of_vgg19() -> None:
    from torchvision.models import vgg19

    with torch.device("meta"):  # only the first layers get memory and values
        features = vgg19(weights=None).features[:12]
    features = features.to_empty(device="cpu").double()
    for parameter in features.parameters():
        nn.init.normal_(parameter, std=0.2)
    extractor = TextureExtractor().double()
    theirs = [layer for layer in features if isinstance(layer, nn.Conv2d)]
    ours = [layer for layer in extractor.modules() if isinstance(layer, nn.Conv2d)]
    for one, other in zip(ours, theirs, strict=True):
        one.load_state_dict(other.state_dict())
    x = pixels(1, 3, 8, 12)
    mean, std = x.new_tensor([0.485, 0.456, 0.406]), x.new_tensor([0.229, 0.224, 0.225])
    level = (x - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    for ours_level, part in zip(extractor(x), (features[0:2], features[2:7], features[7:12]), strict=True):
        level = part(level)
        torch.testing.assert_close(ours_level, level, **CLOSE)


# --- scales that hear each other


def test_scales_hear_each_other_as_written_out_by_hand() -> None:
    module = CrossScale(4, 3).double()
    branches = [noise(2, 4, 3, 2), noise(2, 4, 6, 4, seed=1), noise(2, 4, 12, 8, seed=2)]

    def conv(x: Tensor, layer: nn.Conv2d) -> Tensor:
        return F.conv2d(x, layer.weight, layer.bias, layer.stride, layer.padding)

    bring, mix = module.bring, module.mix
    large = torch.cat(
        (
            conv(bicubic(branches[0], (12, 8)), bring["0-2"][0]).relu(),
            conv(bicubic(branches[1], (12, 8)), bring["1-2"][0]).relu(),
            branches[2],
        ),
        dim=1,
    )
    small = torch.cat(
        (
            branches[0],
            conv(branches[1], bring["1-0"][0]).relu(),
            conv(conv(branches[2], bring["2-0"][0]), bring["2-0"][1]).relu(),
        ),
        dim=1,
    )
    heard = module(branches)
    torch.testing.assert_close(heard[2], branches[2] + conv(large, mix["2"]).relu(), **CLOSE)
    torch.testing.assert_close(heard[0], branches[0] + conv(small, mix["0"]).relu(), **CLOSE)


def test_at_the_end_only_the_largest_scale_hears() -> None:
    module, branches = CrossScale(4, 2, only_largest=True).double(), [noise(1, 4, 3, 2), noise(1, 4, 6, 4, seed=1)]
    small, large = module(branches)
    assert small is branches[0]
    assert not torch.equal(large, branches[1])
    assert list(module.mix) == ["1"]


# --- the model


def test_an_untrained_model_gives_back_the_enlarged_image() -> None:
    x = pixels(2, 3, 5, 6)
    model = TextureTransformer(**SMALL).double()
    assert torch.equal(model(x, pixels(2, 3, 12, 16, seed=1)), bicubic(x, (20, 24)))


@pytest.mark.parametrize("size", [(4, 4), (12, 40), (20, 24), (36, 8)])
def test_references_of_any_size_of_multiples_of_4_are_taken(size: tuple[int, int]) -> None:
    assert seeded()(pixels(2, 3, 5, 6), pixels(2, 3, *size, seed=1)).shape == (2, 3, 20, 24)


def test_what_was_copied_has_the_size_of_its_scale() -> None:
    _, found = seeded()(pixels(2, 3, 5, 6), pixels(2, 3, 12, 16, seed=1), need_transfer=True)
    assert [tuple(level.shape) for level in found.textures] == [(2, 7, 5, 6), (2, 5, 10, 12), (2, 4, 20, 24)]
    assert found.strength.shape == (2, 1, 5, 6)
    assert found.index.shape == (2, 30)
    assert int(found.index.max()) < 12
    assert found.strength.abs().max() <= 1 + 1e-12


def test_the_true_image_as_reference_is_copied_place_by_place() -> None:
    """Enlarged and blurred reference are then the same image, so every place finds itself, with certainty."""
    good = pixels(2, 3, 20, 24)
    model = seeded()
    _, found = model(bicubic(good, (5, 6)), good, need_transfer=True)
    assert found.index.tolist() == [list(range(30))] * 2
    for level, features in zip(reversed(found.textures), model.extractor(good), strict=True):
        torch.testing.assert_close(level, features, **CLOSE)


def test_the_limit_on_scores_does_not_change_the_result() -> None:
    x, reference = pixels(1, 3, 6, 5), pixels(1, 3, 24, 16, seed=1)
    torch.testing.assert_close(seeded(max_scores=1)(x, reference), seeded()(x, reference), **CLOSE)


def test_each_image_has_its_own_reference() -> None:
    x, reference = pixels(3, 3, 5, 6), pixels(3, 3, 12, 16, seed=1)
    together = seeded()(x, reference)
    for row in range(3):
        alone = seeded()(x[row : row + 1], reference[row : row + 1])
        torch.testing.assert_close(alone, together[row : row + 1], **CLOSE)


def test_soft_attention_scales_what_is_offered() -> None:
    """With a strength of zero everywhere the reference has no effect."""
    model = seeded()
    plain = model.search

    def without_trust(large: Tensor, reference: Tensor) -> object:
        found = plain(large, reference)
        found.strength = torch.zeros_like(found.strength)
        return found

    model.search = without_trust
    x = pixels(1, 3, 5, 6)
    assert torch.equal(model(x, pixels(1, 3, 12, 16, seed=1)), model(x, pixels(1, 3, 12, 16, seed=2)))


def test_every_weight_learns() -> None:
    model = seeded()
    model(pixels(2, 3, 5, 6), pixels(2, 3, 12, 16, seed=1)).square().sum().backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_output_has_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    model = seeded().to(dtype)
    assert model(pixels(1, 3, 5, 6).to(dtype), pixels(1, 3, 12, 16).to(dtype)).dtype == dtype


# --- losses


def test_the_perceptual_loss_is_the_mean_over_levels() -> None:
    first, second = [noise(2, 3), noise(1, 4, 5)], [noise(2, 3, seed=1), noise(1, 4, 5, seed=2)]
    expected = sum(((a - b) ** 2).mean() for a, b in zip(first, second, strict=True)) / 2
    torch.testing.assert_close(perceptual_loss(first, second), expected, **CLOSE)


# --- errors

A, B = torch.zeros(1, 3, 4, 5), torch.zeros(1, 3, 6, 7)
INDEX = torch.zeros(1, 20, dtype=torch.int64)
BEYOND = INDEX.clone().index_fill(1, torch.tensor(3), 42)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, r"key must be of shape \(N, C, hr, wr\) = \(1, 3, any, any\), got \(1, 4, 6, 7\)",
         lambda: relevance(A, torch.zeros(1, 4, 6, 7))),
        (ValueError, "query must be of shape", lambda: relevance(A[0], B)),
        (TypeError, "query must be", lambda: relevance(None, B)),
        (TypeError, "key must be torch.float32 like query", lambda: relevance(A, B.double())),
        (ValueError, r"scores must be of shape \(N, P, R\)", lambda: hard_index(A)),
        (TypeError, "scores must be", lambda: hard_index(INDEX[None])),
        (ValueError, "max_scores must be", lambda: best_match(A, B, max_scores=0)),
        (ValueError, "key must be of shape", lambda: best_match(A, B[:, :2])),
        (ValueError, r"index must be of shape \(N, P\) = \(1, 12\), got \(1, 20\)",
         lambda: transfer_texture(B, INDEX, (3, 4))),
        (TypeError, "index must be an int64 tensor", lambda: transfer_texture(B, INDEX.int(), (4, 5))),
        (ValueError, "index must be from 0 to 41, got 0 to 42",
         lambda: transfer_texture(B, BEYOND, (4, 5))),
        (ValueError, "value must be a multiple of factor 2", lambda: transfer_texture(B, INDEX, (4, 5), 2)),
        (ValueError, "value must be of shape", lambda: transfer_texture(B[0], INDEX, (4, 5))),
        (ValueError, "factor must be", lambda: transfer_texture(B, INDEX, (4, 5), 0)),
        (ValueError, "reference must be a multiple of 4 in height and width, got .6, 7.; crop it",
         lambda: seeded()(A.double(), B.double())),
        (ValueError, "reference must be of shape", lambda: seeded()(A.double(), pixels(2, 3, 8, 8))),
        (ValueError, "x must be of shape", lambda: seeded()(pixels(1, 1, 4, 4), pixels(1, 3, 8, 8))),
        (TypeError, "reference must be torch.float64 like x", lambda: seeded()(A.double(), torch.zeros(1, 3, 8, 8))),
        (TypeError, "x must be", lambda: seeded()(INDEX, A)),
        (ValueError, "x must be of pixels from 0 to 1",
         lambda: seeded()(255 * pixels(1, 3, 4, 4), pixels(1, 3, 8, 8))),
        (ValueError, "reference must be of pixels from 0 to 1",
         lambda: seeded()(pixels(1, 3, 4, 4), 255 * pixels(1, 3, 8, 8))),
        (ValueError, "res_blocks must be 4 numbers", lambda: TextureTransformer(6, res_blocks=(1, 1))),
        (ValueError, "extractor_channels must be 3 numbers", lambda: TextureTransformer(6, extractor_channels=(1,))),
        (ValueError, "extractor_channels must be a positive",
         lambda: TextureTransformer(6, extractor_channels=(1, 0, 2))),
        (ValueError, "features must be", lambda: TextureTransformer(0)),
        (ValueError, "max_scores must be", lambda: TextureTransformer(6, max_scores=0)),
        (ValueError, "wanted must be of shapes", lambda: perceptual_loss([A], [B])),
        (ValueError, "wanted must be of shapes", lambda: perceptual_loss([], [])),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_a_reason(error: type[Exception], message: str, call: object) -> None:
    with pytest.raises(error, match=message):
        call()
