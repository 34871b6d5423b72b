"""Vision Transformer: an image becomes a sentence of patches, and an encoder reads it.

Letters: N batch, C channels, P patches, D model width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .blocks import AttentionBuilder, TransformerEncoder, TransformerEncoderLayer, init_weights
from .errors import check_choice, check_count, check_like_weights, check_tensor, explain
from .positional import LearnedPositionalEncoding, PositionalEncoding

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


class PatchEmbedding(nn.Module):
    """Cut an image into patches and turn each into one token.

    Patches come row by row, left to right. The pixels of one patch are flattened channel first, (C, height, width), so
    the projection is a convolution whose kernel and stride are the patch: ``proj.weight.view(D, C, height, width)``.

    Args:
        img_size: Side of the square image in pixels, or its (height, width).
        patch_size: Side of the square patch in pixels, or its (height, width); the image is a whole number of patches.
        in_channels: Number of channels C.
        embed_dim: Width D of a token.

    Attributes:
        grid: Rows and columns of patches.
        num_patches: Number of patches P, rows times columns.
        patch_dim: Numbers in one patch, C times height times width.
        proj: The Linear from ``patch_dim`` to D.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, or the image is not a whole number of patches.

    Example:
        >>> embed = PatchEmbedding(img_size=(16, 24), patch_size=8, in_channels=3, embed_dim=32)
        >>> embed.grid, embed(torch.zeros(5, 3, 16, 24)).shape
        ((2, 3), torch.Size([5, 6, 32]))

    Source:
        Dosovitskiy et al. 2021, section 3.1, arXiv:2010.11929.
    """

    def __init__(
        self,
        img_size: int | Sequence[int],
        patch_size: int | Sequence[int],
        in_channels: int = 3,
        embed_dim: int = 128,
    ) -> None:
        super().__init__()
        self.image_shape = _pair("img_size", img_size)
        self.patch_shape = _pair("patch_size", patch_size)
        check_count("PatchEmbedding", "in_channels", in_channels)
        check_count("PatchEmbedding", "embed_dim", embed_dim)
        if any(image % patch for image, patch in zip(self.image_shape, self.patch_shape, strict=True)):
            expected = f"a multiple of patch_size {patch_size} in height and width"
            raise ValueError(
                explain("PatchEmbedding", "img_size", expected, img_size, "resize the image or choose another patch")
            )
        self.img_size, self.patch_size = img_size, patch_size
        self.in_channels, self.embed_dim = in_channels, embed_dim
        self.grid = (self.image_shape[0] // self.patch_shape[0], self.image_shape[1] // self.patch_shape[1])
        self.num_patches = self.grid[0] * self.grid[1]
        self.patch_dim = in_channels * self.patch_shape[0] * self.patch_shape[1]
        self.proj = nn.Linear(self.patch_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """Turn every patch into a token.

        Args:
            x: (N, C, H, W) images of the size given at construction, H pixels high.

        Returns:
            (N, P, D), row by row.

        Raises:
            TypeError: If ``x`` is no tensor of the dtype of the weights.
            ValueError: If the channels or the size differ from those given at construction.
        """
        self._check_images(x)
        N, C = x.shape[:2]
        rows, columns = self.grid
        height, width = self.patch_shape
        # Exercise 5.1: give each of the grid's and the patch's axes one of its own, bring the two axes of the grid to
        # the front and (C, height, width) to the back, flatten both groups, project (about 3 lines).
        # Look at Tensor.reshape and Tensor.permute.
        ### BEGIN SOLUTION 5.1
        patches = x.reshape(N, C, rows, height, columns, width)
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(N, rows * columns, C * height * width)  # (N, P, patch_dim)
        return self.proj(patches)  # (N, P, D)
        ### END SOLUTION 5.1

    def _check_images(self, x: Tensor) -> None:
        who = type(self).__name__
        check_tensor(who, "x", x, floating=False)
        if not x.is_floating_point():
            fix = "convert pixels with x.float() / 255"
            raise TypeError(explain(who, "x", "a tensor of a floating dtype", x.dtype, fix))
        if x.dim() != 4:
            fix = "add the batch axis with x[None] to a single image"
            raise ValueError(explain(who, "x", "of shape (N, C, H, W)", tuple(x.shape), fix))
        if x.shape[1] != self.in_channels:
            fix = "channels are the second axis: convert the images, or build the model with their in_channels"
            raise ValueError(explain(who, "x", f"images of {self.in_channels} channels", x.shape[1], fix))
        if tuple(x.shape[2:]) != self.image_shape:
            fix = "resize the images, or build the model with their img_size"
            raise ValueError(explain(who, "x", f"images of (H, W) = {self.image_shape}", tuple(x.shape[2:]), fix))
        check_like_weights(who, self.proj, x=x)


class VisionTransformer(nn.Module):
    """Classify an image by letting its patches look at each other.

    With the default keywords: sinusoidal positions, post-norm layers, the mean of all tokens read by the head. With
    ``pool="cls", positions="learned", norm_first=True``: the published ViT, a class token in front, learned positions,
    pre-norm layers and a LayerNorm between the last layer and the head.

    Args:
        img_size: Side of the square image in pixels, or its (height, width).
        patch_size: Side of the square patch in pixels, or its (height, width).
        in_channels: Number of channels C.
        embed_dim: Model width D, a multiple of ``num_heads``.
        num_layers: Number of encoder layers.
        num_heads: Number of heads H.
        dim_feedforward: Hidden width F of the feed-forward networks.
        num_classes: Number of classes.
        dropout: Probability of dropping, after the positions and inside the layers.
        pool: What the head reads: "mean" of all tokens, or "cls", an extra token in front of the patches.
        positions: "sinusoidal" or "learned".
        norm_first: Whether the layers normalise the input of a sublayer instead of the sum behind it.
        attention: Builds another attention for the layers, in the form of ``TransformerEncoderLayer``.

    Attributes:
        patch_embed: The ``PatchEmbedding``.
        positional_encoding: Positions, added to the tokens.
        transformer: The ``TransformerEncoder``; with ``norm_first`` it ends with a LayerNorm.
        head: Linear from D to the classes.
        class_token: (1, 1, D) parameter with ``pool="cls"``, else None.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, sizes do not divide each other, or a keyword has another value.

    Example:
        >>> model = VisionTransformer(img_size=16, patch_size=8, embed_dim=12, num_layers=1, num_heads=2)
        >>> model(torch.zeros(5, 3, 16, 16)).shape
        torch.Size([5, 10])

    Source:
        Dosovitskiy et al. 2021, section 3.1, arXiv:2010.11929.
    """

    def __init__(
        self,
        img_size: int | Sequence[int] = 32,
        patch_size: int | Sequence[int] = 8,
        in_channels: int = 3,
        embed_dim: int = 128,
        num_layers: int = 6,
        num_heads: int = 4,
        dim_feedforward: int = 256,
        num_classes: int = 10,
        dropout: float = 0.1,
        *,
        pool: str = "mean",
        positions: str = "sinusoidal",
        norm_first: bool = False,
        attention: AttentionBuilder | None = None,
    ) -> None:
        super().__init__()
        check_choice("VisionTransformer", "pool", pool, ("mean", "cls"))
        check_choice("VisionTransformer", "positions", positions, ("sinusoidal", "learned"))
        check_count("VisionTransformer", "num_classes", num_classes)
        self.pool, self.num_classes = pool, num_classes
        # The order of construction is the order in which the generator is drawn from: keep it.
        self.patch_embed = PatchEmbedding(img_size, patch_size, in_channels, embed_dim)
        encoding = PositionalEncoding if positions == "sinusoidal" else LearnedPositionalEncoding
        tokens = self.patch_embed.num_patches + (pool == "cls")
        self.positional_encoding = encoding(embed_dim, dropout=dropout, max_len=tokens)
        options = {"norm_first": norm_first, "attention": attention}
        layer = TransformerEncoderLayer(embed_dim, num_heads, dim_feedforward, dropout, **options)
        self.transformer = TransformerEncoder(layer, num_layers)
        self.head = nn.Linear(embed_dim, num_classes)
        self.class_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if pool == "cls" else None
        self.apply(init_weights)

    def forward(self, x: Tensor) -> Tensor:
        """Score the classes.

        Args:
            x: (N, C, H, W) images of the size given at construction, H pixels high.

        Returns:
            (N, num_classes) logits.

        Raises:
            TypeError: If ``x`` is no tensor of the dtype of the weights.
            ValueError: If the channels or the size differ from those given at construction.
        """
        return self._class_token(x) if self.pool == "cls" else self._pooled(x)

    def _pooled(self, x: Tensor) -> Tensor:
        # Exercise 5.2: patches, positions, encoder, then the head on the mean of all tokens (about 4 lines).
        # The parts are self.patch_embed, self.positional_encoding, self.transformer and self.head.
        ### BEGIN SOLUTION 5.2
        tokens = self.patch_embed(x)  # (N, P, D)
        tokens = self.transformer(self.positional_encoding(tokens))
        return self.head(tokens.mean(dim=1))  # (N, num_classes)
        ### END SOLUTION 5.2

    def _class_token(self, x: Tensor) -> Tensor:
        # Exercise 5.3: put self.class_token, once per image, in front of the patches; then positions for all tokens,
        # encoder, and the head on the first token alone (about 4 lines). Look at Tensor.expand and torch.cat.
        ### BEGIN SOLUTION 5.3
        patches = self.patch_embed(x)  # (N, P, D)
        first = self.class_token.expand(len(patches), -1, -1)  # (N, 1, D)
        tokens = self.positional_encoding(torch.cat((first, patches), dim=1))  # (N, 1 + P, D)
        return self.head(self.transformer(tokens)[:, 0])  # (N, num_classes)
        ### END SOLUTION 5.3


def _pair(name: str, size: int | Sequence[int]) -> tuple[int, int]:
    pair = (size, size) if not isinstance(size, list | tuple | torch.Size) else tuple(size)
    if len(pair) != 2:
        fix = "pass one number for a square"
        raise ValueError(explain("PatchEmbedding", name, "a whole number or (height, width)", size, fix))
    for side in pair:
        check_count("PatchEmbedding", name, side)
    return int(pair[0]), int(pair[1])
