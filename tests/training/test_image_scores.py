from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cs_transformers.data.degradations import as_bytes, as_pixels
from cs_transformers.data.restoration_sets import load_pairs
from cs_transformers.restoration import bicubic
from cs_transformers.training.image_scores import luma, psnr, ssim

SET5_BICUBIC = {"img_001": 37.08, "img_002": 36.82, "img_003": 27.44, "img_004": 34.88, "img_005": 32.15}


def pixels(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_psnr_equals_torchmetrics_image_by_image() -> None:
    from torchmetrics.functional.image import peak_signal_noise_ratio

    restored, target = pixels(4, 3, 9, 12), pixels(4, 3, 9, 12, seed=1)
    expected = [
        peak_signal_noise_ratio(restored[row : row + 1], target[row : row + 1], data_range=1.0) for row in range(4)
    ]
    torch.testing.assert_close(psnr(restored, target), torch.stack(expected), rtol=0, atol=1e-6)


def test_psnr_by_hand() -> None:
    target = torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64)
    restored = target + torch.tensor([[0.1, -0.1], [0.3, 0.0]], dtype=torch.float64)
    assert psnr(restored, target).item() == pytest.approx(10 * math.log10(4 / (0.01 + 0.01 + 0.09)), abs=1e-9)


def test_equal_images_have_no_bound_and_less_noise_has_more_decibels() -> None:
    target, noise = pixels(1, 3, 8, 8), pixels(1, 3, 8, 8, seed=1) - 0.5
    assert psnr(target, target).item() == math.inf
    scores = [psnr(target + strength * noise, target).item() for strength in (0.3, 0.1, 0.02)]
    assert scores == sorted(scores)


def test_half_the_error_is_worth_six_decibels() -> None:
    target, noise = torch.full((1, 3, 8, 8), 0.5).double(), 0.2 * (pixels(1, 3, 8, 8, seed=1) - 0.5)
    gain = psnr(target + noise / 2, target) - psnr(target + noise, target)
    assert gain.item() == pytest.approx(20 * math.log10(2), abs=1e-9)


def test_what_lies_outside_the_screen_is_cut_first() -> None:
    target = torch.ones(1, 1, 2, 2)
    assert psnr(target + 0.5, target).item() == math.inf


def test_the_border_does_not_count() -> None:
    target = pixels(2, 3, 10, 11)
    restored = target.clone()
    restored[..., 3:-3, 3:-3] *= 0.5
    spoilt = restored.clone()
    spoilt[..., :3, :], spoilt[..., -3:], spoilt[..., -3:, :], spoilt[..., :3] = 0, 1, 0, 1
    assert torch.equal(psnr(spoilt, target, border=3), psnr(restored, target, border=3))
    expected = psnr(restored[..., 3:-3, 3:-3].contiguous(), target[..., 3:-3, 3:-3].contiguous())
    torch.testing.assert_close(psnr(restored, target, border=3), expected, rtol=1e-12, atol=0)


def test_luma_is_that_of_pillow_and_of_the_standard() -> None:
    corners = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)
    levels = 255 * luma(corners.view(5, 3, 1, 1)).flatten()
    expected = torch.tensor([16, 235, 81.481, 144.553, 40.966], dtype=torch.float64)
    torch.testing.assert_close(levels, expected, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("data_dir")
def test_bicubic_enlargement_of_set5_has_the_published_decibels() -> None:
    for name, small, large in load_pairs("Set5", 2):
        enlarged = as_pixels(as_bytes(bicubic(as_pixels(small)[None], tuple(large.shape[1:]))))
        score = psnr(luma(enlarged), luma(as_pixels(large)[None]), border=2).item()
        assert score == pytest.approx(SET5_BICUBIC[name], abs=0.02)


def test_ssim_is_one_for_equal_images_and_each_image_has_its_own() -> None:
    target = pixels(3, 3, 16, 20)
    restored = target + torch.tensor([0.0, 0.1, 0.3]).view(3, 1, 1, 1) * (pixels(3, 3, 16, 20, seed=1) - 0.5)
    scores = ssim(restored, target)
    assert scores[0].item() == pytest.approx(1, abs=1e-6)
    assert scores[0] > scores[1] > scores[2]
    torch.testing.assert_close(ssim(restored[2:], target[2:]), scores[2:], rtol=1e-9, atol=1e-9)


def test_ssim_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchmetrics.functional.image", None)
    with pytest.raises(
        ImportError, match=r"ssim needs the package torchmetrics: pip install 'cs_transformers\[score\]'"
    ):
        ssim(pixels(1, 3, 16, 16), pixels(1, 3, 16, 16))


A = torch.zeros(2, 3, 8, 9)


@pytest.mark.parametrize("score", [psnr, ssim])
@pytest.mark.parametrize(
    ("error", "message", "change"),
    [
        (ValueError, r"restored must be of shape \(N, C, H, W\) = \(2, 3, 8, 9\), got \(2, 3, 8, 10\); crop",
         {"restored": torch.zeros(2, 3, 8, 10)}),
        (ValueError, "restored must be of shape", {"restored": A[0]}),
        (ValueError, "target must be of shape", {"target": A[0]}),
        (TypeError, "restored must be", {"restored": A.to(torch.uint8)}),
        (TypeError, "restored must be torch.float32 like target", {"restored": A.double()}),
        (ValueError, "target must be of pixels from 0 to 1", {"target": torch.full((2, 3, 8, 9), 200.0)}),
        (ValueError, "target must be at least", {"border": 4}),
        (ValueError, "border must be", {"border": -1}),
        (TypeError, "border must be", {"border": 0.5}),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(
    score: object, error: type[Exception], message: str, change: dict[str, object]
) -> None:
    with pytest.raises(error, match=message):
        score(**{"restored": A, "target": A, **change})


def test_luma_wants_three_channels() -> None:
    with pytest.raises(ValueError, match=r"images must be of shape \(N, C, H, W\) = \(any, 3"):
        luma(A[:, :1])
