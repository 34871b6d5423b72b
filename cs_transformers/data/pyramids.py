"""Pretrained networks as backbones of a detector: the last feature map of each size, with frozen batch norms.

A batch norm that learns needs large batches; a detector's hold a few images, so it keeps the statistics it came with.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from cs_transformers.data.backbones import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    _efficientnet,
    _read_state,
    _torchvision,
)
from cs_transformers.data.paths import cache_dir, find_data
from cs_transformers.data.sources import DATA_SETS
from cs_transformers.data.transfer import fetch
from cs_transformers.detection import level_mask
from cs_transformers.errors import check_count, explain

EFFICIENTNET = "efficientnet-lite0"


class NetworkPyramid(nn.Module):
    """A convolutional network read off at the last map of each size.

    Args:
        stages: Modules to run one after the other.
        levels: How many maps to give, the last ones.
        mean: Mean of each channel of the bytes, subtracted first.
        std: Standard deviation of each channel of the bytes, divided by next.

    Attributes:
        channels: Channels of each map given.

    Raises:
        ValueError: If the stages do not give so many maps.

    Example:
        >>> stages = [nn.Conv2d(3, 4, 2, stride=2), nn.ReLU(), nn.Conv2d(4, 6, 2, stride=2)]
        >>> pyramid = NetworkPyramid(stages, levels=2)
        >>> pyramid.channels, [tuple(fmap.shape) for fmap in pyramid(torch.zeros(1, 3, 16, 24))]
        ([4, 6], [(1, 4, 8, 12), (1, 6, 4, 6)])
    """

    def __init__(
        self,
        stages: Sequence[nn.Module],
        levels: int = 3,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        check_count("NetworkPyramid", "levels", levels)
        self.stages, self.levels = nn.ModuleList(stages), levels
        self.register_buffer("mean", torch.tensor(mean)[:, None, None] / 255, persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None] / 255, persistent=False)
        self.eval()  # a look at how many maps there are, without touching any statistics
        with torch.no_grad():
            maps = self._maps(torch.zeros(1, 3, 128, 128))
        if len(maps) < levels:
            fix = "ask for fewer levels or take another network"
            raise ValueError(explain("NetworkPyramid", "levels", f"at most {len(maps)}", levels, fix))
        self.train()
        self.channels = [fmap.shape[1] for fmap in maps[-levels:]]

    def forward(self, images: Tensor, real: Tensor | None = None) -> list[Tensor]:
        """Look at images.

        Args:
            images: (N, 3, H, W) in [0, 1].
            real: (N, H, W) bool, True = a real pixel; padding is set to 0 before the first stage.

        Returns:
            ``levels`` maps (N, C, h, w), fine to coarse.
        """
        normed = (images - self.mean) / self.std
        if real is not None:
            normed = normed * level_mask(real, normed.shape[-2:]).unsqueeze(1)
        return self._maps(normed)[-self.levels :]

    def _maps(self, fmap: Tensor) -> list[Tensor]:
        """The last map of each size."""
        maps: dict[torch.Size, Tensor] = {}
        for stage in self.stages:
            fmap = stage(fmap)
            maps[fmap.shape[-2:]] = fmap
        return list(maps.values())


def load_pyramid(
    name: str = EFFICIENTNET,
    *,
    levels: int = 3,
    weights: str | os.PathLike[str] | None = None,
    download: bool = False,
    empty: bool = False,
) -> NetworkPyramid:
    """Load a pretrained network as the backbone of a detector.

    Args:
        name: ``"efficientnet-lite0"``, whose weights come with a pip package, or any convolutional classifier of
            torchvision, ``"resnet50"`` for instance.
        levels: How many feature maps the detector wants.
        weights: File with the network's state dict; None takes the package's, or torchvision's from the data folders.
        download: Fetch torchvision's weights into the cache where they are not on disk.
        empty: Leave the weights as they are drawn, for a checkpoint that is about to fill them.

    Returns:
        The backbone, with its batch norms frozen; its other weights may learn on.

    Raises:
        ValueError: If the name is unknown, the network has no feature maps, or the weights belong to another one.
        FileNotFoundError: If the weights are not on disk; the message says how to get them.
        ImportError: If the package of ``"efficientnet-lite0"`` is not installed.
    """
    if name == EFFICIENTNET:
        network, packaged = _efficientnet()
        if not empty:
            _fill(network, packaged if weights is None else Path(weights), name)
        first = nn.Sequential(network._conv_stem, network._bn0, network._swish)
        stages, scale = [first, *network._blocks], {"mean": (127.0,) * 3, "std": (128.0,) * 3}
    else:
        network = _network(name)
        if not empty:
            _fill(network, Path(weights) if weights is not None else _weights_of(name, download), name)
        stages, scale = _stages(name, network), {}
    return NetworkPyramid([freeze_batch_norms(stage) for stage in stages], levels, **scale)


def freeze_batch_norms(module: nn.Module) -> nn.Module:
    """Put a fixed affine map in the place of every batch norm.

    Args:
        module: A network in any state; changed in place, unless it is a batch norm itself.

    Returns:
        The network.

    Example:
        >>> frozen = freeze_batch_norms(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))
        >>> [type(layer).__name__ for layer in frozen], len(list(frozen.parameters()))
        (['Conv2d', 'FrozenBatchNorm2d'], 2)
    """
    from torchvision.ops import FrozenBatchNorm2d

    if isinstance(module, nn.BatchNorm2d):
        frozen = FrozenBatchNorm2d(module.num_features, module.eps)
        state = {key: value for key, value in module.state_dict().items() if key in frozen.state_dict()}
        frozen.load_state_dict({**frozen.state_dict(), **state})
        return frozen.to(module.running_mean.device)
    for name, child in module.named_children():
        setattr(module, name, freeze_batch_norms(child))
    return module


def _network(name: str) -> nn.Module:
    try:
        return _torchvision(name)
    except ValueError as error:
        expected = f"'{EFFICIENTNET}' or a classifier of torchvision"
        fix = "torchvision.models.list_models() lists them"
        raise ValueError(explain("load_pyramid", "name", expected, repr(name), fix)) from error


def _stages(name: str, network: nn.Module) -> list[nn.Module]:
    """What a classifier of torchvision does before its pooling, in small steps."""
    if hasattr(network, "layer4"):  # the ResNets name their stages
        return [
            nn.Sequential(network.conv1, network.bn1, network.relu), network.maxpool,
            network.layer1, network.layer2, network.layer3, network.layer4,
        ]  # fmt: skip
    if isinstance(getattr(network, "features", None), nn.Sequential):
        return list(network.features)
    fix = "take one with convolutional stages, such as resnet50 or mobilenet_v3_small"
    raise ValueError(explain("load_pyramid", "name", "a network of feature maps", repr(name), fix))


def _weights_of(name: str, download: bool) -> Path:
    from torchvision.models import get_model_weights

    url = get_model_weights(name).DEFAULT.url
    file = url.rsplit("/", 1)[1]
    found = find_data(f"backbones/{file}")
    if found is not None:
        return found
    if not download:
        command = f"type: cst data get backbone-{name}" if f"backbone-{name}" in DATA_SETS else f"put {url} there"
        raise FileNotFoundError(
            f"load_pyramid: the weights of {name} are not on disk (backbones/{file} in {cache_dir()}). Pass "
            f"download=True to fetch them, or weights=PATH; for a command {command}."
        )
    digits = re.search(r"-([0-9a-f]{8,})\.pth$", file)  # the first digits of the file's SHA-256 are part of its name
    return fetch(url, cache_dir() / "backbones" / file, sha256=digits and digits[1])


def _fill(network: nn.Module, path: Path, name: str) -> None:
    try:
        network.load_state_dict(_read_state(path, "load_pyramid"))
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"load_pyramid: the weights in {path} do not fit {name} ({reason}). Pass a state dict of this network."
        ) from error
