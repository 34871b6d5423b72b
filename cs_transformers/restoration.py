"""Image restoration: one Transformer for many kinds of damage, with a head, a tail and an embedding for each.

Letters: N batch, C channels, H height, W width, p side of a patch, P patches, D model width (C of the features times
p^2), s scale. Pixels are numbers from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .blocks import TransformerDecoderLayer, TransformerEncoderLayer, clone_layers, init_weights
from .errors import check_choice, check_count, check_pixels, check_shape, check_tensor, explain
from .tiling import process_by_tiles

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

TASKS = ("x2", "x3", "x4", "denoise30", "denoise50", "derain")
MIDDLE, SPREAD = 0.5, 0.25  # pixels in [0, 1] become numbers around 0, and what the tails say becomes pixels again


def task_scale(task: str) -> int:
    """Say by which factor a task enlarges an image: 2 for "x2", 1 for all that keep its size.

    Args:
        task: Name of the task; "x2", "x3" and "x4" enlarge.

    Returns:
        The factor s.

    Raises:
        ValueError: If the name asks for another factor.

    Example:
        >>> task_scale("x3"), task_scale("denoise30")
        (3, 1)
    """
    match = re.fullmatch(r"x(\d+)", task)
    if match is None:
        return 1
    if int(match[1]) not in (2, 3, 4):
        raise ValueError(explain("task_scale", "task", "x2, x3 or x4 where it enlarges", repr(task), "choose of these"))
    return int(match[1])


def bicubic(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize images as Pillow and Matlab do: a cubic with a = -1/2, widened where the image shrinks.

    Args:
        images: (N, C, H, W).
        size: New height and width in pixels.

    Returns:
        (N, C, height, width), a little beyond [0, 1] at sharp edges.

    Raises:
        TypeError: If ``images`` is no floating tensor.
        ValueError: If ``images`` has not four axes, or a side is not positive.

    Example:
        >>> bicubic(torch.ones(1, 3, 6, 8), (3, 16)).shape
        torch.Size([1, 3, 3, 16])

    Source:
        Keys 1981, "Cubic convolution interpolation for digital image processing".
    """
    _check_images("bicubic", "images", images)
    for side in size:
        check_count("bicubic", "size", side)
    if tuple(images.shape[-2:]) == tuple(size):
        return images
    # Only with antialias=True does torch take a = -1/2; it computes in single precision at least.
    wide = images if images.dtype in (torch.float32, torch.float64) else images.float()
    return F.interpolate(wide, size=tuple(size), mode="bicubic", antialias=True, align_corners=False).to(images.dtype)


def unfold_patches(x: Tensor, patch_size: int) -> Tensor:
    """Cut an image, or a map of features, into patches that do not overlap, one vector each.

    Patches come row by row, left to right; each is flattened channel first, (C, p, p).

    Args:
        x: (N, C, H, W), where H and W are multiples of p.
        patch_size: Side p of a patch in pixels.

    Returns:
        (N, P, C p^2) with P = (H/p)(W/p).

    Raises:
        TypeError: If ``x`` is no floating tensor or ``patch_size`` no whole number.
        ValueError: If ``x`` has not four axes, or a side is not a whole number of patches.

    Example:
        >>> unfold_patches(torch.zeros(2, 3, 4, 8), patch_size=2).shape
        torch.Size([2, 8, 12])

    Source:
        Chen et al. 2021, section 3.1, arXiv:2012.00364.
    """
    _check_images("unfold_patches", "x", x)
    _check_whole_patches("unfold_patches", "x", tuple(x.shape[-2:]), patch_size)
    # Exercise 9.1: give rows, columns and both sides of a patch an axis each, order them, flatten (about 3 lines).
    # Look at Tensor.reshape and Tensor.permute; or at F.unfold, whose patches are the last axis.
    ### BEGIN SOLUTION 9.1 unfold_patches
    N, C, H, W = x.shape
    cells = x.reshape(N, C, H // patch_size, patch_size, W // patch_size, patch_size)
    return cells.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (N, P, C p^2)
    ### END SOLUTION 9.1 unfold_patches


def fold_patches(patches: Tensor, size: tuple[int, int], patch_size: int) -> Tensor:
    """Put patches back where ``unfold_patches`` took them from.

    Args:
        patches: (N, P, C p^2), row by row, each channel first.
        size: Height H and width W of the image, multiples of p.
        patch_size: Side p of a patch in pixels.

    Returns:
        (N, C, H, W).

    Raises:
        TypeError: If ``patches`` is no floating tensor or ``patch_size`` no whole number.
        ValueError: If ``size`` is not a whole number of patches, or the patches are not as many as that or not C p^2.

    Example:
        >>> x = torch.arange(96.0).reshape(1, 3, 4, 8)
        >>> bool((fold_patches(unfold_patches(x, 2), (4, 8), 2) == x).all())
        True

    Source:
        Chen et al. 2021, section 3.1, arXiv:2012.00364.
    """
    check_tensor("fold_patches", "patches", patches)
    _check_whole_patches("fold_patches", "size", size, patch_size)
    rows, columns = size[0] // patch_size, size[1] // patch_size
    if patches.dim() != 3 or patches.shape[1] != rows * columns or patches.shape[2] % patch_size**2:
        expected = f"of shape (N, {rows * columns}, C * {patch_size**2})"
        fix = "pass the size of the image they come from"
        raise ValueError(explain("fold_patches", "patches", expected, tuple(patches.shape), fix))
    # Exercise 9.1: the way back: the axes (N, rows, columns, C, p, p), their order in the image, flatten (about 3
    # lines). -1 lets reshape find C.
    ### BEGIN SOLUTION 9.1 fold_patches
    cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
    cells = cells.permute(0, 3, 1, 4, 2, 5)  # (N, C, rows, p, columns, p)
    return cells.flatten(4).flatten(2, 3)  # (N, C, H, W)
    ### END SOLUTION 9.1 fold_patches


class ImageRestorationTransformer(nn.Module):
    """Repair an image: patches look at each other, and an embedding of the task says which damage to look for.

    restored = enlarged input + tail_task(body(head_task(input), task) + head_task(input)). All tasks share the body.
    The last layer of each tail starts at zero, so that an untrained model gives back the (bicubically enlarged) input.

    Args:
        tasks: Names of the tasks; "x2", "x3" and "x4" enlarge, all others keep the size.
        img_size: Side of the square images it reads, in pixels, a multiple of ``patch_size``; ``restore`` takes others.
        patch_size: Side p of a patch of features.
        in_channels: Channels of an image.
        features: Channels C of the map of features; D = C p^2 is a multiple of ``num_heads``.
        num_heads: Number of heads.
        num_layers: Layers of the encoder, and as many of the decoder.
        dim_feedforward: Inner width of the feed-forward networks; None for 4 D.
        dropout: Probability of dropout inside the layers.

    Attributes:
        heads: For each task a convolution and two residual blocks.
        embed: Linear from D to D, added to the patches.
        positions: (P, D) learned positions.
        encoder: The encoder's layers, pre-norm.
        task_embedding: For each task a vector per patch, (tasks, P D).
        decoder: The decoder's layers, pre-norm.
        mlp: A residual network behind the decoder.
        tails: For each task, convolutions that enlarge where the task does and end in pixels.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If sizes do not divide each other, or ``tasks`` is empty, has a name twice or an unknown factor.

    Example:
        >>> model = ImageRestorationTransformer(("x2", "denoise30"), img_size=12, features=4, num_heads=2, num_layers=1)
        >>> model(torch.zeros(5, 3, 12, 12), "x2").shape
        torch.Size([5, 3, 24, 24])

    Source:
        Chen et al. 2021, "Pre-Trained Image Processing Transformer", section 3.1, arXiv:2012.00364.
    """

    def __init__(
        self,
        tasks: Sequence[str] = TASKS,
        *,
        img_size: int = 48,
        patch_size: int = 3,
        in_channels: int = 3,
        features: int = 64,
        num_heads: int = 12,
        num_layers: int = 12,
        dim_feedforward: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        who = "ImageRestorationTransformer"
        self.tasks = _check_tasks(who, tasks)
        for name, number in (("in_channels", in_channels), ("features", features), ("num_layers", num_layers)):
            check_count(who, name, number)
        check_count(who, "img_size", img_size)
        _check_whole_patches(who, "img_size", (img_size, img_size), patch_size)
        self.img_size, self.patch_size, self.in_channels = img_size, patch_size, in_channels
        self.num_patches, width = (img_size // patch_size) ** 2, features * patch_size**2
        self.embed_dim, inner = width, 4 * width if dim_feedforward is None else dim_feedforward
        check_count(who, "dim_feedforward", inner)
        options = {"norm_first": True, "activation": "relu", "attention": _attention_without_bias}
        self.heads = nn.ModuleDict({task: _head(in_channels, features) for task in self.tasks})
        self.embed = nn.Linear(width, width)
        self.positions = nn.Parameter(0.02 * torch.randn(self.num_patches, width))
        self.encoder = clone_layers(TransformerEncoderLayer(width, num_heads, inner, dropout, **options), num_layers)
        self.task_embedding = nn.Embedding(len(self.tasks), self.num_patches * width)
        self.decoder = clone_layers(TransformerDecoderLayer(width, num_heads, inner, dropout, **options), num_layers)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.apply(init_weights)
        self.tails = nn.ModuleDict({task: _tail(features, in_channels, task_scale(task)) for task in self.tasks})

    def forward(self, x: Tensor, task: str, *, need_tokens: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Repair images of the size given at construction.

        Args:
            x: (N, C, S, S) damaged images with pixels around [0, 1]; S is ``img_size``.
            task: Which of ``tasks``.
            need_tokens: Whether to return what the decoder says of each patch too, for the contrastive loss.

        Returns:
            (N, C, s S, s S) restored images, not cut to [0, 1]; with ``need_tokens`` a pair of them and (N, P, D).

        Raises:
            TypeError: If ``x`` is no floating tensor.
            ValueError: If the shape is another one, ``task`` is unknown, or pixels are grey levels of 0 to 255.
        """
        self._check(x, task)
        correction, tokens = self._correct(x, task)
        size = (correction.shape[-2], correction.shape[-1])
        restored = bicubic(x, size) + correction  # (N, C, s S, s S)
        return (restored, tokens) if need_tokens else restored

    @torch.no_grad()
    def restore(self, images: Tensor, task: str, *, overlap: int | None = None, batch_size: int = 16) -> Tensor:
        """Repair whole images of any size, tile by tile, in eval mode and without gradients.

        Args:
            images: (N, C, H, W) damaged images with pixels around [0, 1].
            task: Which of ``tasks``.
            overlap: Pixels that neighbouring tiles share; None for a third of ``img_size``.
            batch_size: Tiles that are worked on at once.

        Returns:
            (N, C, s H, s W), cut to [0, 1].

        Raises:
            TypeError: If ``images`` is no floating tensor.
            ValueError: If it has not four axes or other channels, ``task`` is unknown, or pixels go up to 255.
        """
        check_choice(type(self).__name__, "task", task, self.tasks)
        _check_images(type(self).__name__, "images", images, self.in_channels)
        check_pixels(type(self).__name__, "images", images)
        scale, modes = task_scale(task), [(module, module.training) for module in self.modules()]
        overlap = self.img_size // 3 if overlap is None else overlap
        self.eval()
        try:
            correction = process_by_tiles(
                lambda tiles: self._correct(tiles, task)[0],
                images,
                self.img_size,
                scale=scale,
                overlap=overlap,
                batch_size=batch_size,
            )
        finally:
            for module, mode in modes:
                module.training = mode
        return (bicubic(images, tuple(correction.shape[-2:])) + correction).clamp(0, 1)

    def _correct(self, x: Tensor, task: str) -> tuple[Tensor, Tensor]:
        """What is to be added to the enlarged input, (N, C, s S, s S), and the tokens (N, P, D)."""
        feature_map = self.heads[task]((x - MIDDLE) / SPREAD)  # (N, C, S, S)
        memory = self._encode(unfold_patches(feature_map, self.patch_size))
        tokens = self._decode(memory, self.tasks.index(task))
        detail = fold_patches(tokens, (self.img_size, self.img_size), self.patch_size) + feature_map  # (N, C, S, S)
        return SPREAD * self.tails[task](detail), tokens

    def _encode(self, patches: Tensor) -> Tensor:
        tokens = patches + self.embed(patches) + self.positions
        for layer in self.encoder:
            tokens = layer(tokens)
        return tokens

    def _decode(self, memory: Tensor, index: int) -> Tensor:
        """Decode (N, P, D) patches for the task of this index."""
        # Exercise 9.2: the row `index` of self.task_embedding.weight, seen as (P, D), goes to every layer of
        # self.decoder as `query_pos`: the layers add it to queries and keys. The first layer reads the memory as its
        # target too. At the end add self.mlp of the tokens to the tokens (about 5 lines).
        ### BEGIN SOLUTION 9.2
        embedding = self.task_embedding.weight[index].view(self.num_patches, self.embed_dim)  # (P, D)
        tokens = memory
        for layer in self.decoder:
            tokens = layer(tokens, memory, query_pos=embedding)
        return tokens + self.mlp(tokens)
        ### END SOLUTION 9.2

    def _check(self, x: Tensor, task: str) -> None:
        check_choice(type(self).__name__, "task", task, self.tasks)
        check_tensor(type(self).__name__, "x", x)
        fix = "cut a square of that size, or call restore() for images of any size"
        check_shape(type(self).__name__, "x", x, fix, N=None, C=self.in_channels, H=self.img_size, W=self.img_size)
        check_pixels(type(self).__name__, "x", x)


def contrastive_loss(tokens: Tensor) -> Tensor:
    """Ask that patches of one image resemble each other more than patches of other images.

    For each ordered pair of different patches a, b of one image: -log(e(a, b) / (e(a, b) + sum over c of e(a, c))),
    where e is exp of the cosine and c runs over all patches of all other images; the mean over these pairs.

    Args:
        tokens: (N, P, D) what the decoder says of each patch, of at least two images with two patches each.

    Returns:
        One number, at least 0.

    Raises:
        TypeError: If ``tokens`` is no floating tensor.
        ValueError: If it has not three axes, or there is one image or one patch only.

    Example:
        >>> round(contrastive_loss(torch.ones(2, 3, 4)).item(), 4)  # all alike: one of four each time
        1.3863

    Source:
        Chen et al. 2021, section 3.2, arXiv:2012.00364. There the denominator leaves out e(a, b).
    """
    check_tensor("contrastive_loss", "tokens", tokens)
    check_shape("contrastive_loss", "tokens", tokens, "pass the tokens of forward", N=None, P=None, D=None)
    N, P = tokens.shape[:2]
    if N < 2 or P < 2:
        fix = "raise the batch size, or leave this loss out"
        raise ValueError(explain("contrastive_loss", "tokens", "of two images with two patches or more", (N, P), fix))
    unit = F.normalize(tokens.flatten(0, 1), dim=-1)  # (N P, D)
    alike = unit @ unit.T  # (N P, N P)
    image = torch.arange(N, device=tokens.device).repeat_interleave(P)  # (N P,)
    same = image[:, None] == image
    others = alike.masked_fill(same, float("-inf")).logsumexp(dim=1, keepdim=True)  # (N P, 1)
    losses = torch.logaddexp(alike, others) - alike
    return losses[same & ~torch.eye(N * P, dtype=torch.bool, device=tokens.device)].mean()


class ResidualBlock(nn.Module):
    """Two convolutions beside a path that leaves the features as they are: x + conv(relu(conv(x))).

    Args:
        features: Number of channels C.
        kernel_size: Side of the kernels, odd.

    Example:
        >>> ResidualBlock(4)(torch.zeros(2, 4, 5, 6)).shape
        torch.Size([2, 4, 5, 6])

    Source:
        Lim et al. 2017, "Enhanced Deep Residual Networks", section 3.1, arXiv:1707.02921.
    """

    def __init__(self, features: int, kernel_size: int = 3) -> None:
        super().__init__()
        same = {"kernel_size": kernel_size, "padding": kernel_size // 2}
        self.body = nn.Sequential(
            nn.Conv2d(features, features, **same), nn.ReLU(), nn.Conv2d(features, features, **same)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what the convolutions find.

        Args:
            x: (N, C, H, W) features.

        Returns:
            The shape of ``x``.
        """
        return x + self.body(x)


def _attention_without_bias(embed_dim: int, num_heads: int, dropout: float) -> nn.Module:
    return MultiHeadAttention(embed_dim, num_heads, dropout, bias=False)


def _head(in_channels: int, features: int) -> nn.Sequential:
    first = nn.Conv2d(in_channels, features, kernel_size=3, padding=1)
    return nn.Sequential(first, ResidualBlock(features, 5), ResidualBlock(features, 5))


def _tail(features: int, out_channels: int, scale: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for factor in {1: (), 2: (2,), 3: (3,), 4: (2, 2)}[scale]:
        layers += [nn.Conv2d(features, features * factor**2, kernel_size=3, padding=1), nn.PixelShuffle(factor)]
    last = nn.Conv2d(features, out_channels, kernel_size=3, padding=1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _check_tasks(who: str, tasks: Sequence[str]) -> tuple[str, ...]:
    names = tuple(tasks) if not isinstance(tasks, str) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        expected = "a sequence of different names"
        raise ValueError(explain(who, "tasks", expected, repr(tasks), 'pass for instance ("x2", "denoise30")'))
    for name in names:
        task_scale(name)
    return names


def _check_images(who: str, name: str, images: Tensor, channels: int | None = None) -> None:
    check_tensor(who, name, images)
    fix = "add the batch axis with images[None] to a single image"
    check_shape(who, name, images, fix, N=None, C=channels, H=None, W=None)


def _check_whole_patches(who: str, name: str, size: tuple[int, int], patch_size: int) -> None:
    check_count(who, "patch_size", patch_size)
    if any(side < 1 or side % patch_size for side in size):
        expected = f"a multiple of patch_size {patch_size} in height and width"
        raise ValueError(explain(who, name, expected, size, "crop or pad the image, or choose another patch"))
