from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision.models import get_model
from torchvision.models.feature_extraction import create_feature_extractor

from cs_transformers.data import backbones
from cs_transformers.data.backbones import (
    Backbone,
    SceneEncoder,
    load_backbone,
    load_scene_encoder,
    save_scene_encoder,
    weights_fingerprint,
)
from cs_transformers.data.paths import DamagedFileError
from cs_transformers.data.scenes import make_scenes, render


def pictures(count: int, size: int) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "last", "width"), [("resnet18", "layer4", 512), ("mobilenet_v3_small", "features", 576)]
)
def test_a_network_of_torchvision_is_cut_at_its_last_map(name: str, last: str, width: int, tmp_path: Path) -> None:
    network = get_model(name).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    images = pictures(2, 64)
    backbone = load_backbone(name, weights=tmp_path / "weights.pth", image_size=64)
    pooled, grid = backbone(images)
    # torchvision's own way: scale to [0, 1], normalise with ImageNet's numbers, cut the graph at a named node
    scaled = (images / 255 - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[
        :, None, None
    ]
    nodes = create_feature_extractor(network, {last: "map", "flatten": "pooled"})(scaled)
    assert grid.shape == (2, 4, width)
    torch.testing.assert_close(grid, nodes["map"].flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pooled, nodes["pooled"], rtol=1e-4, atol=1e-4)


def test_the_global_vector_of_vgg_is_its_second_hidden_layer() -> None:
    with torch.device("meta"):
        network = get_model("vgg16")
        body, head = backbones._cut(network)
        assert head(body(torch.zeros(2, 3, 224, 224))).shape == (2, 4096)
    assert body is network.features
    assert list(head)[2:] == list(network.classifier)[:5]


def test_a_loaded_network_rests(tmp_path: Path) -> None:
    torch.save(get_model("resnet18").state_dict(), tmp_path / "weights.pth")
    backbone = load_backbone("resnet18", weights=tmp_path / "weights.pth")
    assert not backbone.training
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    assert backbone.image_size == 224


def test_efficientnet_sees_its_own_input_range_and_both_features_agree() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    backbone = load_backbone("efficientnet-lite0", image_size=64)
    images = pictures(2, 64)
    pooled, grid = backbone(images)
    assert grid.shape == (2, 4, 1280)
    torch.testing.assert_close(grid.mean(dim=1), pooled)
    logits = backbone.body.network((images.float() - 127) / 128)
    torch.testing.assert_close(backbone.body.network._fc(pooled), logits, rtol=1e-4, atol=1e-4)


def test_missing_weights_name_the_command_that_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CST_DATA_DIR", raising=False)
    with pytest.raises(FileNotFoundError, match=r"resnet18-f37072fd\.pth.*cst data get backbone-resnet18"):
        load_backbone("resnet18")
    with pytest.raises(FileNotFoundError, match=r"expected weights at .*nowhere\.pth"):
        load_backbone("resnet18", weights=tmp_path / "nowhere.pth")


def test_fetched_weights_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CST_CACHE_DIR", str(tmp_path))
    (tmp_path / "backbones").mkdir()
    network = get_model("mobilenet_v3_small")
    torch.save(network.state_dict(), tmp_path / "backbones" / "mobilenet_v3_small-047dcff4.pth")
    found = load_backbone("mobilenet_v3_small", image_size=32)
    assert torch.equal(found.body[0][0].weight, network.features[0][0].weight)


class Trap:
    """Unpickling this would run a command."""

    def __reduce__(self) -> tuple:
        return print, ("the trap went off",)


def test_weights_that_are_damaged_or_run_code_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weights.pth"
    torch.save(nn.Linear(2, 3).state_dict(), path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DamagedFileError, match=r"weights\.pth \(size 300\) is damaged or holds more than weights"):
        load_backbone("resnet18", weights=path)
    torch.save({"conv1.weight": Trap()}, path)
    with pytest.raises(DamagedFileError, match="holds more than weights"):
        load_backbone("resnet18", weights=path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("state", [nn.Linear(2, 3).state_dict(), torch.zeros(2), [1, 2]])
def test_weights_of_another_network_are_refused(state: object, tmp_path: Path) -> None:
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(ValueError, match=r"the weights in .*weights\.pth do not fit resnet18"):
        load_backbone("resnet18", weights=tmp_path / "weights.pth")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ImportError, match=r'pip install "cs_transformers\[features\]"'):
        load_backbone()


@pytest.mark.parametrize(
    ("wrong", "message"), [({"name": "resnet"}, "name must be one of"), ({"image_size": 100}, "multiple of 32")]
)
def test_a_wrong_choice_of_backbone_is_refused(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_backbone(**wrong)


@pytest.mark.parametrize(
    "network", [Backbone("tiny", nn.Conv2d(3, 4, 8, 8), image_size=64), SceneEncoder(16, 24, width=8)]
)
def test_pictures_of_another_kind_are_refused(network: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"images must be of shape \(N, 3, 64, 64\), got \(2, 3, 32, 32\)"):
        network(pictures(2, 32))
    with pytest.raises(ValueError, match="images must be of shape"):
        network(pictures(2, 64)[0])
    with pytest.raises(TypeError, match=r"images must be of dtype torch\.uint8, got torch\.float32"):
        network(pictures(2, 64).float())


# --------------------------------------------------------------------------------------------------- scene encoder


def test_the_grid_is_row_by_row_and_local() -> None:
    torch.manual_seed(0)
    encoder = SceneEncoder(16, 24, width=8, num_blocks=0).double().eval()
    images = torch.full((1, 3, 64, 64), 60, dtype=torch.uint8)
    changed = images.clone()
    changed[..., 19:22, 43:46] = 250  # the middle of the place in row 2, column 5
    # group normalisation spreads a change over the map, so ask where it is largest
    difference = (encoder(changed)[1] - encoder(images)[1]).abs().sum(dim=-1)
    assert int(difference.argmax()) == 2 * 8 + 5


def test_one_picture_gives_the_same_alone_and_in_a_batch() -> None:
    torch.manual_seed(0)
    encoder = SceneEncoder(16, 24, width=8).double()
    images = pictures(3, 64)
    for alone, together in zip(encoder(images[1:2]), encoder(images), strict=True):
        torch.testing.assert_close(alone[0], together[1], rtol=1e-9, atol=1e-9)


def test_the_global_vector_is_the_projected_mean_of_the_grid() -> None:
    torch.manual_seed(0)
    encoder = SceneEncoder(16, 24, width=8).double()
    pooled, grid = encoder(pictures(2, 64))
    torch.testing.assert_close(pooled, encoder.project(grid.mean(dim=1)))


@pytest.mark.parametrize("wrong", [{"grid_dim": 20}, {"width": 12}, {"global_dim": 0}, {"num_blocks": -1}])
def test_widths_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"SceneEncoder: {next(iter(wrong))} must be"):
        SceneEncoder(**wrong)


def test_an_encoder_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    encoder = SceneEncoder(16, 24, width=8, num_blocks=2)
    path = save_scene_encoder(encoder, tmp_path / "deep" / "encoder.pt")
    loaded = load_scene_encoder(path)
    assert weights_fingerprint(loaded) == weights_fingerprint(encoder)
    assert not loaded.training
    images = pictures(2, 64)
    assert all(torch.equal(a, b) for a, b in zip(loaded(images), encoder(images), strict=True))


def test_a_file_that_holds_no_encoder_is_refused(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 3).state_dict(), tmp_path / "encoder.pt")
    with pytest.raises(ValueError, match=r"encoder\.pt holds no scene encoder\. Train one with"):
        load_scene_encoder(tmp_path / "encoder.pt")
    (tmp_path / "encoder.pt").write_bytes(b"")
    with pytest.raises(DamagedFileError, match=r"encoder\.pt \(size 0\)"):
        load_scene_encoder(tmp_path / "encoder.pt")
    with pytest.raises(FileNotFoundError, match="load_scene_encoder: expected weights at"):
        load_scene_encoder(tmp_path / "nowhere.pt")


@pytest.mark.learning
def test_the_encoder_learns_to_tell_colours_within_60_steps() -> None:
    torch.manual_seed(0)
    scenes = make_scenes(256, seed=5, objects=(1, 1))
    images = torch.stack([torch.from_numpy(render(scene)).permute(2, 0, 1) for scene in scenes])
    colours = sorted({scene.objects[0].colour for scene in scenes})
    labels = torch.tensor([colours.index(scene.objects[0].colour) for scene in scenes])
    encoder, head = SceneEncoder(32, 32, width=8), nn.Linear(32, len(colours))
    optimiser = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=5e-3)
    for step in range(60):
        rows = torch.arange(32) + 32 * (step % 6)
        loss = nn.functional.cross_entropy(head(encoder(images[rows])[0]), labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        accuracy = (head(encoder(images[192:])[0]).argmax(dim=1) == labels[192:]).float().mean()
    assert accuracy > 0.8
