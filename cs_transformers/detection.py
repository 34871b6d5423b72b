"""DETR: objects as a set that a transformer predicts at once, without anchors and without suppressing duplicates.

Letters: N batch, C channels, h and w height and width of a feature map, S = h * w its cells, D model width, Q object
queries, K classes. Boxes are (cx, cy, w, h) as fractions of the image. Masks: True = a real pixel or cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .blocks import TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer
from .boxes import cxcywh_to_xyxy
from .errors import check_choice, check_count, check_pixels, check_shape, check_tensor, explain
from .masks import to_bool

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

Outputs = dict[str, Any]  # "pred_logits", "pred_boxes", "aux_outputs"


def sine_grid(real: Tensor, embed_dim: int, *, temperature: float = 10000.0, shift: float = 0.0) -> Tensor:
    """Tell every cell of a grid where it lies: half of its vector says how far down, the other half how far right.

    Cells are counted over the real ones alone, from 1, and measured in parts of 2 pi: y = 2 pi (count + shift) /
    (last count + 1e-6), and so x. Channels 2i and 2i + 1 of a half are the sine and cosine of y / temperature^(4i / D).

    Args:
        real: (N, h, w), True = a real cell, False = padding.
        embed_dim: Width D, a multiple of 4.
        temperature: Base of the wavelengths.
        shift: Added to the counts; -0.5 measures from the middle of a cell, as Deformable DETR does.

    Returns:
        (N, h, w, D) in float64 (float32 on Apple's GPUs), on the device of ``real``: D/2 channels of y, then D/2 of x.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a shape does not fit, or D is no multiple of 4.

    Example:
        >>> sine_grid(torch.ones(1, 2, 3, dtype=torch.bool), embed_dim=8).shape
        torch.Size([1, 2, 3, 8])

    Source:
        Carion et al. 2020, appendix A.4, arXiv:2005.12872.
    """
    check_tensor("sine_grid", "real", real, floating=False)
    check_shape("sine_grid", "real", real, "one entry per cell", N=None, h=None, w=None)
    check_count("sine_grid", "embed_dim", embed_dim)
    if embed_dim % 4:
        fix = "rows and columns need sine and cosine each: use 4, 8, 12 and so on"
        raise ValueError(explain("sine_grid", "embed_dim", "a multiple of 4", embed_dim, fix))
    precise = torch.float32 if real.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
    cells = to_bool(real, who="sine_grid", name="real").to(precise)
    # Exercise 8.1: count the cells down the columns and along the rows; measure the counts in parts of 2 pi; times the
    # frequencies they give the angles; interleave sine and cosine; y before x (about 8 lines; cumsum, torch.arange,
    # torch.stack, flatten, torch.cat). Make new tensors with dtype=cells.dtype and device=cells.device.
    ### BEGIN SOLUTION 8.1
    exponent = torch.arange(0, embed_dim // 2, 2, dtype=cells.dtype, device=cells.device) / (embed_dim // 2)
    halves = []
    for axis in (1, 2):
        count = cells.cumsum(axis)  # (N, h, w)
        last = count.narrow(axis, -1, 1)  # (N, 1, w) or (N, h, 1)
        angle = 2 * math.pi * (count + shift) / (last + 1e-6)
        angles = angle.unsqueeze(-1) / temperature**exponent  # (N, h, w, D/4)
        halves.append(torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(3))  # (N, h, w, D/2)
    return torch.cat(halves, dim=-1)  # (N, h, w, D)
    ### END SOLUTION 8.1


class ConvPyramid(nn.Module):
    """A small convolutional backbone that learns along: each step sees more of the image in fewer cells.

    Padding is set to 0 before every convolution, so that an image gives the same features alone and padded in a batch.

    Args:
        widths: Channels of each step, a 3x3 convolution with batch norm and ReLU.
        strides: Stride of each step, 1 or 2.
        levels: How many maps to give, the last ones, each half as high and wide as the one before.

    Attributes:
        channels: Channels of each map given.

    Raises:
        ValueError: If the lists do not fit each other or ``levels``.

    Example:
        >>> pyramid = ConvPyramid(widths=(8, 16, 24), strides=(2, 2, 2), levels=2)
        >>> [tuple(fmap.shape) for fmap in pyramid(torch.zeros(1, 3, 32, 48))]
        [(1, 16, 8, 12), (1, 24, 4, 6)]
    """

    def __init__(
        self, widths: Sequence[int] = (16, 32, 64, 64), strides: Sequence[int] = (2, 2, 2, 1), *, levels: int = 1
    ) -> None:
        super().__init__()
        if len(widths) != len(strides) or not widths or any(stride not in (1, 2) for stride in strides):
            got = f"widths {tuple(widths)} and strides {tuple(strides)}"
            raise ValueError(explain("ConvPyramid", "strides", "1 or 2, one per width", got, "give one per step"))
        ends = [i for i in range(len(widths)) if i + 1 == len(widths) or strides[i + 1] == 2]  # last of each size
        check_count("ConvPyramid", "levels", levels)
        if levels > len(ends):
            raise ValueError(explain("ConvPyramid", "levels", f"at most {len(ends)}", levels, "add steps of stride 2"))
        self.ends, self.channels = ends[-levels:], [widths[i] for i in ends[-levels:]]
        sizes = zip((3, *widths), widths, strides)  # noqa: B905  one input more than outputs
        self.steps = nn.ModuleList(_convolution(before, after, stride) for before, after, stride in sizes)

    def forward(self, images: Tensor, real: Tensor | None = None) -> list[Tensor]:
        """Look at images.

        Args:
            images: (N, 3, H, W) in [0, 1].
            real: (N, H, W) bool, True = a real pixel; None: all.

        Returns:
            ``levels`` maps (N, C, h, w), fine to coarse.
        """
        fmap, maps = (images - 0.5) / 0.25, []
        for index, step in enumerate(self.steps):
            if real is not None:
                fmap = fmap * level_mask(real, fmap.shape[-2:]).unsqueeze(1)
            fmap = step(fmap)  # (N, C, h, w)
            if index in self.ends:
                maps.append(fmap)
        return maps


def _convolution(before: int, after: int, stride: int) -> nn.Sequential:
    layer = nn.Conv2d(before, after, kernel_size=3, stride=stride, padding=1, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(after), nn.ReLU())


class BoxHead(nn.Module):
    """Three linear layers with ReLU between them, which turn a query's state into four numbers.

    Args:
        embed_dim: Width D.

    Example:
        >>> BoxHead(8)(torch.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 4])
    """

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(embed_dim, width) for width in (embed_dim, embed_dim, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Compute boxes before the sigmoid.

        Args:
            x: (..., D).

        Returns:
            (..., 4).
        """
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class DetectionTransformer(nn.Module):
    """DETR: a backbone sees, an encoder relates the cells, and each object query asks for one object or none.

    Args:
        num_classes: Number of classes K; the logits have K + 1 columns, index K for "no object".
        num_queries: Number of object queries Q, more than the objects of any image.
        embed_dim: Model width D, a multiple of 4.
        num_heads: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Inner width of the feed-forward networks.
        dropout: Probability of dropout.
        backbone: Module from images and a mask of real pixels to feature maps, with the list ``channels``; None takes a
            ``ConvPyramid``. The last map is used.
        norm_first: Pre-norm instead of post-norm.
        activation: "relu" or "gelu".

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes do not fit.

    Example:
        >>> model = DetectionTransformer(num_classes=3, num_queries=5, embed_dim=16, num_heads=2, dim_feedforward=32)
        >>> outputs = model(torch.zeros(2, 3, 64, 64))
        >>> outputs["pred_logits"].shape, outputs["pred_boxes"].shape
        (torch.Size([2, 5, 4]), torch.Size([2, 5, 4]))

    Source:
        Carion et al. 2020, arXiv:2005.12872.
    """

    def __init__(
        self,
        num_classes: int,
        num_queries: int = 100,
        embed_dim: int = 256,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        *,
        backbone: nn.Module | None = None,
        norm_first: bool = False,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        for name, count in (("num_classes", num_classes), ("num_queries", num_queries)):
            check_count("DetectionTransformer", name, count)
        self.num_classes, self.num_queries, self.embed_dim = num_classes, num_queries, embed_dim
        self.backbone = backbone if backbone is not None else ConvPyramid()
        self.input_proj = nn.Conv2d(self.backbone.channels[-1], embed_dim, kernel_size=1)
        options = {"norm_first": norm_first, "activation": activation}
        layer = TransformerEncoderLayer(embed_dim, num_heads, dim_feedforward, dropout, **options)
        self.encoder = TransformerEncoder(layer, num_encoder_layers)
        layer = TransformerDecoderLayer(embed_dim, num_heads, dim_feedforward, dropout, **options)
        self.decoder = TransformerDecoder(layer, num_decoder_layers)
        self.decoder.norm = nn.LayerNorm(embed_dim)  # of what the heads read, whatever the layers have
        for parameter in (*self.encoder.parameters(), *self.decoder.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        self.query_embed = nn.Embedding(num_queries, embed_dim)
        self.class_embed = nn.Linear(embed_dim, num_classes + 1)
        self.bbox_embed = BoxHead(embed_dim)

    def forward(self, images: Tensor, pixel_mask: Tensor | None = None, *, query_mask: Tensor | None = None) -> Outputs:
        """Predict a set of objects.

        Args:
            images: (N, 3, H, W) in [0, 1], or uint8; smaller ones padded at the right and the bottom.
            pixel_mask: (N, H, W), True or nonzero = a real pixel; None: all are.
            query_mask: (Q, Q), True or nonzero where a query may look at another; None: everywhere.

        Returns:
            "pred_logits" (N, Q, K + 1) and "pred_boxes" (N, Q, 4) as (cx, cy, w, h) in fractions of the real image,
            and "aux_outputs", the same for each decoder layer before the last.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit.
        """
        images, real = check_images("DetectionTransformer", images, pixel_mask, self.query_embed.weight)
        fmap = self.input_proj(self.backbone(images, real)[-1])  # (N, D, h, w)
        cells = level_mask(real, fmap.shape[-2:], like=fmap[:1])  # (N, h, w), one for all where there is no padding
        key_mask = None if real is None else cells.flatten(1)  # (N, S)
        pos = sine_grid(cells, self.embed_dim).flatten(1, 2).to(fmap.dtype)  # (N or 1, S, D)
        memory = self.encoder(fmap.flatten(2).transpose(1, 2), src_key_mask=key_mask, pos=pos)  # (N, S, D)
        states = self.decode(memory, pos, key_mask, query_mask)
        layers = [
            {"pred_logits": self.class_embed(state), "pred_boxes": self.bbox_embed(state).sigmoid()} for state in states
        ]
        return {**layers[-1], "aux_outputs": layers[:-1]}

    def decode(
        self, memory: Tensor, pos: Tensor, key_mask: Tensor | None = None, query_mask: Tensor | None = None
    ) -> list[Tensor]:
        """Let the queries look at the memory.

        The heads read a normed copy of each layer's state; the next layer goes on from the state itself.

        Args:
            memory: (N, S, D) from the encoder.
            pos: (N, S, D) or (1, S, D) positions of the cells.
            key_mask: (N, S), True = a real cell; None: all.
            query_mask: (Q, Q), True or nonzero where a query may look at another; None: everywhere.

        Returns:
            The normed state (N, Q, D) of every decoder layer.
        """
        query_pos = self.query_embed.weight.expand(len(memory), -1, -1)  # (N, Q, D)
        state, states = torch.zeros_like(query_pos), []
        for layer in self.decoder.layers:
            state = layer(state, memory, query_mask, memory_key_mask=key_mask, query_pos=query_pos, memory_pos=pos)
            states.append(self.decoder.norm(state))
        return states


def pad_images(images: Sequence[Tensor], *, multiple: int = 1) -> tuple[Tensor, Tensor]:
    """Put images of different sizes into one batch: each in the top left corner, zeros around it.

    Args:
        images: Tensors (3, H, W) of one dtype, each of its own size.
        multiple: Round height and width of the batch up to a multiple.

    Returns:
        (N, 3, H, W) images and (N, H, W) bool, True = a real pixel.

    Raises:
        TypeError: If an entry is no tensor.
        ValueError: If there is none, or one has another form.

    Example:
        >>> images, real = pad_images([torch.ones(3, 2, 4), torch.ones(3, 3, 1)])
        >>> images.shape, real.sum(dim=(1, 2)).tolist()
        (torch.Size([2, 3, 3, 4]), [8, 3])
    """
    if not images:
        raise ValueError(explain("pad_images", "images", "at least one", 0, "pass a list of tensors"))
    for index, image in enumerate(images):
        check_tensor("pad_images", f"image {index}", image, floating=False)
        check_shape("pad_images", f"image {index}", image, "channels come first", C=3, H=None, W=None)
    height, width = (-(-max(image.shape[axis] for image in images) // multiple) * multiple for axis in (1, 2))
    batch = images[0].new_zeros(len(images), 3, height, width)
    real = torch.zeros(len(images), height, width, dtype=torch.bool, device=batch.device)
    for index, image in enumerate(images):
        batch[index, :, : image.shape[1], : image.shape[2]] = image
        real[index, : image.shape[1], : image.shape[2]] = True
    return batch, real


def level_mask(real: Tensor | None, size: Sequence[int], *, like: Tensor | None = None) -> Tensor:
    """Say which cells of a feature map lie on real pixels.

    Args:
        real: (N, H, W) bool, True = a real pixel; None: all are.
        size: (h, w) of the map.
        like: A tensor (N, ...) for batch size and device where ``real`` is None.

    Returns:
        (N, h, w) bool, True = a real cell.

    Example:
        >>> level_mask(torch.tensor([[[True, True, True, True, True, False, False, False]]]), (1, 4)).tolist()
        [[[True, True, True, False]]]
    """
    if real is None:
        return torch.ones(len(like), *size, dtype=torch.bool, device=like.device)
    for axis, cells in ((1, size[0]), (2, size[1])):
        pixels = real.shape[axis]
        step = _step(pixels, cells)
        index = (torch.arange(cells, device=real.device) * step).clamp(max=pixels - 1)
        real = real.index_select(axis, index)
    return real


def _step(pixels: int, cells: int) -> int:
    """By how many pixels neighbouring cells lie apart: a power of 2 if steps of stride 2, which round up, fit."""
    least = -(-pixels // cells)  # 15 for 7 cells on 100 pixels, which are 16 apart: the last one lies at the edge
    power = 1 << (least - 1).bit_length()
    return power if -(-pixels // power) == cells else least


def post_process(
    outputs: Mapping[str, Tensor],
    target_sizes: Tensor | Sequence[Sequence[int]],
    *,
    scoring: str = "softmax",
    top: int = 100,
) -> list[dict[str, Tensor]]:
    """Turn predictions into objects with scores and boxes in pixels. No suppression of duplicates is needed.

    Args:
        outputs: "pred_logits" and "pred_boxes" of a detector.
        target_sizes: (N, 2) as (height, width) of the original images in pixels, before any padding.
        scoring: "softmax" gives every query its best class, "no object" left out; "sigmoid" takes the ``top`` best
            pairs of query and class, so that a query may speak twice, as in Deformable DETR.
        top: Most objects per image for "sigmoid".

    Returns:
        For each image "scores" (m,) in descending order, "labels" (m,), "boxes" (m, 4) as (x0, y0, x1, y1) in pixels,
        and "queries" (m,), which query said so.

    Raises:
        ValueError: If ``target_sizes`` has another shape or ``scoring`` is unknown.

    Example:
        >>> outputs = {"pred_logits": torch.zeros(1, 1, 4), "pred_boxes": torch.tensor([[[0.5, 0.5, 1.0, 1.0]]])}
        >>> post_process(outputs, [[100, 200]])[0]["boxes"]
        tensor([[  0.,   0., 200., 100.]])
    """
    check_choice("post_process", "scoring", scoring, ("softmax", "sigmoid"))
    logits, boxes = outputs["pred_logits"], cxcywh_to_xyxy(outputs["pred_boxes"])  # (N, Q, K + 1), (N, Q, 4)
    sizes = torch.as_tensor(target_sizes, device=boxes.device).to(boxes.dtype)
    fix = "give (height, width) of every image"
    check_shape("post_process", "target_sizes", sizes, fix, N=len(logits), two=2)
    if scoring == "softmax":
        scores, labels = logits.softmax(dim=-1)[..., :-1].max(dim=-1)  # (N, Q)
        scores, queries = scores.sort(dim=1, descending=True, stable=True)
        labels = labels.gather(1, queries)
    else:
        flat = logits.sigmoid().flatten(1)  # (N, Q * K)
        scores, index = flat.topk(min(top, flat.shape[1]), dim=1)
        queries, labels = index // logits.shape[-1], index % logits.shape[-1]
    boxes = boxes.gather(1, queries.unsqueeze(-1).expand(-1, -1, 4))  # (N, m, 4)
    boxes = boxes * sizes.flip(1).repeat(1, 2).unsqueeze(1)  # times (width, height, width, height)
    found = zip(scores, labels, boxes, queries, strict=True)
    return [dict(zip(("scores", "labels", "boxes", "queries"), image, strict=True)) for image in found]


def check_images(who: str, images: Tensor, pixel_mask: Tensor | None, weight: Tensor) -> tuple[Tensor, Tensor | None]:
    """Bring images and their mask into the form that a detector computes with.

    Args:
        who: The class or function the caller used.
        images: (N, 3, H, W) in [0, 1], or uint8.
        pixel_mask: (N, H, W), True or nonzero = a real pixel; None: all are.
        weight: A weight of the model.

    Returns:
        Images in the dtype of ``weight`` if they were bytes, and a bool mask, or None where there is no padding.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a shape does not fit, or floats are grey levels of 0 to 255.

    Example:
        >>> images, real = check_images("demo", torch.full((1, 3, 2, 2), 255, dtype=torch.uint8), None, torch.zeros(1))
        >>> images.max(), real
        (tensor(1.), None)
    """
    check_tensor(who, "images", images, floating=False)
    check_shape(who, "images", images, "channels come second", N=None, C=3, H=None, W=None)
    if images.dtype == torch.uint8:
        images = images.to(weight.dtype) / 255
    check_tensor(who, "images", images)
    check_pixels(who, "images", images)
    if pixel_mask is None:
        return images, None
    check_tensor(who, "pixel_mask", pixel_mask, floating=False)
    height, width = images.shape[-2:]
    fix = "pad_images gives both"
    check_shape(who, "pixel_mask", pixel_mask, fix, N=len(images), H=height, W=width)
    real = to_bool(pixel_mask, who=who, name="pixel_mask")
    return images, None if images.device.type != "meta" and bool(real.all()) else real
