"""Texture transfer: an image is enlarged four times, and its lost detail is copied from a reference image.

Letters: N batch, C channels, h, w height and width of the small image, P = h w its places, R places of the reference,
f pixels per place (1, 2, 4). Pixels are numbers from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import check_count, check_pixels, check_same_kind, check_shape, check_tensor, explain
from .restoration import SPREAD, ResidualBlock, bicubic

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

SCALE = 4
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # what VGG-19 expects


def relevance(query: Tensor, key: Tensor) -> Tensor:
    """Compare every place of one map of features with every place of another, by the cosine of their patches.

    A place is seen with its eight neighbours, a patch of 3 x 3; beyond the border there are zeros.

    Args:
        query: (N, C, h, w) features of the image that lacks detail.
        key: (N, C, hr, wr) features of the reference, blurred alike.

    Returns:
        (N, P, R) from -1 to 1, with P = h w and R = hr wr, both row by row.

    Raises:
        TypeError: If an argument is no floating tensor, or the dtypes differ.
        ValueError: If the shapes do not fit.

    Example:
        >>> relevance(torch.rand(1, 3, 4, 5), torch.rand(1, 3, 6, 7)).shape
        torch.Size([1, 20, 42])

    Source:
        Yang et al. 2020, section 3.1.2, equation 4, arXiv:2006.04139.
    """
    _check_maps("relevance", query=query, key=key)
    # Exercise 9.4: cut both maps into patches of 3 x 3 with a padding of 1, one per place (F.unfold gives (N, 9 C,
    # places)); scale each patch to length 1 (F.normalize); all products of a query and a key (about 3 lines).
    ### BEGIN SOLUTION 9.4 relevance
    queries = F.normalize(F.unfold(query, kernel_size=3, padding=1), dim=1)  # (N, 9 C, P)
    keys = F.normalize(F.unfold(key, kernel_size=3, padding=1), dim=1)  # (N, 9 C, R)
    return queries.transpose(1, 2) @ keys  # (N, P, R)
    ### END SOLUTION 9.4 relevance


def hard_index(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Choose for every place the one place of the reference that resembles it most.

    Args:
        scores: (N, P, R) relevance.

    Returns:
        How much the chosen places resemble, (N, P), and which they are, (N, P) int64.

    Raises:
        TypeError: If ``scores`` is no floating tensor.
        ValueError: If it has not three axes.

    Example:
        >>> hard_index(torch.tensor([[[0.1, 0.7, 0.3], [0.9, 0.2, 0.4]]]))
        (tensor([[0.7000, 0.9000]]), tensor([[1, 0]]))

    Source:
        Yang et al. 2020, section 3.1.2, equations 5 and 7, arXiv:2006.04139.
    """
    check_tensor("hard_index", "scores", scores)
    check_shape("hard_index", "scores", scores, "pass what relevance returns", N=None, P=None, R=None)
    # Exercise 9.4: the largest score along the reference's places, and where it stands (about 2 lines; Tensor.max).
    ### BEGIN SOLUTION 9.4 hard_index
    strength, index = scores.max(dim=2)
    return strength, index
    ### END SOLUTION 9.4 hard_index


def best_match(query: Tensor, key: Tensor, *, max_scores: int = 2**24) -> tuple[Tensor, Tensor]:
    """Find the best place of the reference for every place, a few rows at a time, so that memory stays bounded.

    Args:
        query: (N, C, h, w) features of the image that lacks detail.
        key: (N, C, hr, wr) features of the reference.
        max_scores: Scores of one image that may exist at once; one row of the image is always compared as a whole, and
            with it the rows above and below, which its patches reach into.

    Returns:
        Resemblance (N, P) and place (N, P) int64, as from ``hard_index(relevance(query, key))``.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit or ``max_scores`` is not positive.

    Example:
        >>> features = torch.rand(1, 3, 4, 5)
        >>> best_match(features, features, max_scores=1)[1].tolist() == [list(range(20))]
        True
    """
    check_count("best_match", "max_scores", max_scores)
    _check_maps("best_match", query=query, key=key)
    h, w = query.shape[-2:]
    rows = max(1, max_scores // (w * key.shape[-2] * key.shape[-1]) - 2)  # relevance sees a row more on each side
    parts = []
    # relevance unfolds the whole reference anew for every part, about a tenth of a part's time where a part is large.
    # To unfold it once, the patches and their products would have to be written a second time here.
    for top in range(0, h, rows):
        bottom = min(top + rows, h)
        above, below = max(top - 1, 0), min(bottom + 1, h)  # a patch reaches one row further
        scores = relevance(query[:, :, above:below], key)[:, (top - above) * w : (bottom - above) * w]
        parts.append(hard_index(scores))
    strength, index = zip(*parts, strict=True)
    return torch.cat(strength, dim=1), torch.cat(index, dim=1)


def transfer_texture(value: Tensor, index: Tensor, size: tuple[int, int], factor: int = 1) -> Tensor:
    """Copy a patch of the reference to every place of the image; where patches overlap, take their mean.

    Around each place lie 3 f x 3 f pixels, so that a pixel is covered up to nine times. Pixels that a patch would take
    from beyond the reference's border do not exist and do not count.

    Args:
        value: (N, C, f hr, f wr) what is to be copied from.
        index: (N, P) for every place of the image the place of the reference, int64 below hr wr.
        size: (h, w) places of the image, P = h w.
        factor: Pixels f per place along a side.

    Returns:
        (N, C, f h, f w).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes do not fit, or an index is no place of the reference.

    Example:
        >>> picture = torch.arange(36.0).reshape(1, 1, 6, 6)
        >>> itself = torch.arange(9)[None]
        >>> bool(torch.allclose(transfer_texture(picture, itself, (3, 3), factor=2), picture))
        True

    Source:
        Yang et al. 2020, section 3.1.2, equation 6, arXiv:2006.04139; the count of overlaps instead of a constant 9.
    """
    _check_transfer(value, index, size, factor)
    kernel = {"kernel_size": 3 * factor, "padding": factor, "stride": factor}
    # Exercise 9.5: append a channel of ones to `value`; F.unfold(..., **kernel) gives (N, (C + 1) 9 f^2, R); gather
    # along R the columns that `index` names; F.fold(..., **kernel) adds them up at their new places; the last channel
    # has counted them: divide by it (about 5 lines).
    ### BEGIN SOLUTION 9.5
    counted = torch.cat((value, torch.ones_like(value[:, :1])), dim=1)  # (N, C + 1, f hr, f wr)
    patches = F.unfold(counted, **kernel)  # (N, (C + 1) 9 f^2, R)
    chosen = patches.gather(2, index[:, None].expand(-1, patches.shape[1], -1))  # (N, (C + 1) 9 f^2, P)
    total = F.fold(chosen, (factor * size[0], factor * size[1]), **kernel)  # (N, C + 1, f h, f w)
    return total[:, :-1] / total[:, -1:]
    ### END SOLUTION 9.5


class TextureExtractor(nn.Module):
    """Describe an image at three scales, by a few layers that learn along; cut and shaped like the start of VGG-19.

    Args:
        channels: Channels at full, half and quarter size.

    Attributes:
        levels: Layers up to full size, from there to half, and from there to a quarter.

    Example:
        >>> [level.shape[1:] for level in TextureExtractor((4, 6, 8))(torch.zeros(1, 3, 8, 12))]
        [torch.Size([4, 8, 12]), torch.Size([6, 4, 6]), torch.Size([8, 2, 3])]

    Source:
        Yang et al. 2020, section 3.1.1, arXiv:2006.04139; Simonyan and Zisserman 2015, arXiv:1409.1556.
    """

    def __init__(self, channels: Sequence[int] = (64, 128, 256)) -> None:
        super().__init__()
        full, half, quarter = channels
        self.levels = nn.ModuleList(
            (
                nn.Sequential(_conv(3, full), nn.ReLU()),
                nn.Sequential(_conv(full, full), nn.ReLU(), nn.MaxPool2d(2), _conv(full, half), nn.ReLU()),
                nn.Sequential(_conv(half, half), nn.ReLU(), nn.MaxPool2d(2), _conv(half, quarter), nn.ReLU()),
            )
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Describe images.

        Args:
            images: (N, 3, H, W) from 0 to 1, H and W multiples of 4.

        Returns:
            Features at full, half and quarter size.
        """
        mean, std = (images.new_tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        full = self.levels[0]((images - mean) / std)  # (N, C1, H, W)
        half = self.levels[1](full)  # (N, C2, H/2, W/2)
        return full, half, self.levels[2](half)  # (N, C3, H/4, W/4)


@dataclass
class Transfer:
    """What was found in the reference.

    Args:
        strength: (N, 1, h, w) how much the chosen places resemble, from -1 to 1.
        index: (N, P) which they are.
        textures: Copied features at quarter, half and full size, (N, C3, h, w), (N, C2, 2h, 2w), (N, C1, 4h, 4w).
    """

    strength: Tensor
    index: Tensor
    textures: tuple[Tensor, Tensor, Tensor]


class TextureTransformer(nn.Module):
    """Enlarge an image four times with the detail of a reference: search, copy, weigh, and mix at three scales.

    restored = bicubically enlarged image + what the branches of three scales make of its features and the copied ones.
    The last layer starts at zero, so that an untrained model gives back the enlarged image.

    Args:
        features: Channels of the branches.
        res_blocks: Residual blocks of the first features, and at quarter, half and full size.
        extractor_channels: Channels of the texture extractor at full, half and quarter size.
        max_scores: Scores of relevance that may exist at once.

    Attributes:
        extractor: The ``TextureExtractor``.
        enter: Three convolutions, each of features and copied texture at one scale; the soft attention.
        exchange: What tells the scales of each other.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, or there are not as many as needed.

    Example:
        >>> model = TextureTransformer(8, res_blocks=(1, 1, 1, 1), extractor_channels=(4, 6, 8))
        >>> model(torch.zeros(2, 3, 5, 6), torch.zeros(2, 3, 12, 16)).shape
        torch.Size([2, 3, 20, 24])

    Source:
        Yang et al. 2020, "Learning Texture Transformer Network for Image Super-Resolution", arXiv:2006.04139.
    """

    def __init__(
        self,
        features: int = 64,
        *,
        res_blocks: Sequence[int] = (16, 16, 8, 4),
        extractor_channels: Sequence[int] = (64, 128, 256),
        max_scores: int = 2**24,
    ) -> None:
        super().__init__()
        self._check_sizes(features, res_blocks, extractor_channels, max_scores)
        self.max_scores = max_scores
        first, *blocks = res_blocks
        self.extractor = TextureExtractor(extractor_channels)
        self.shallow = nn.Sequential(_conv(3, features), nn.ReLU(), _blocks(features, first), _conv(features, features))
        self.enter = nn.ModuleList(_conv(size + features, features) for size in reversed(extractor_channels))
        self.refine = nn.ModuleList(_blocks(features, count) for count in blocks)
        self.enlarge = nn.ModuleList(_double(features) for _ in range(2))
        self.exchange = nn.ModuleList((CrossScale(features, 2), CrossScale(features, 3)))
        self.merge = CrossScale(features, 3, only_largest=True)
        self.last = nn.Sequential(_conv(features, features // 2 or 1), nn.Conv2d(features // 2 or 1, 3, kernel_size=1))
        nn.init.zeros_(self.last[1].weight)
        nn.init.zeros_(self.last[1].bias)

    def forward(self, x: Tensor, reference: Tensor, *, need_transfer: bool = False) -> Tensor | tuple[Tensor, Transfer]:
        """Enlarge images with the help of references.

        Args:
            x: (N, 3, h, w) small images from 0 to 1, of any size.
            reference: (N, 3, Hr, Wr) images with detail; any size of multiples of 4.
            need_transfer: Whether to return what was copied from where too.

        Returns:
            (N, 3, 4h, 4w), not cut to [0, 1]; with ``need_transfer`` a pair of it and the ``Transfer``.

        Raises:
            TypeError: If an argument is no floating tensor, or the dtypes differ.
            ValueError: If the shapes do not fit, or pixels are grey levels of 0 to 255.
        """
        self._check(x, reference)
        h, w = x.shape[-2:]
        large = bicubic(x, (SCALE * h, SCALE * w))  # (N, 3, 4h, 4w)
        found = self.search(large, reference)
        branches: list[Tensor] = []
        carried = self.shallow((x - 0.5) / SPREAD)  # (N, C, h, w)
        for level, texture in enumerate(found.textures):
            strength = bicubic(found.strength, tuple(texture.shape[-2:]))
            offered = self.enter[level](torch.cat((carried, texture), dim=1))
            branches.append(carried + offered * strength)
            if level > 0:
                branches = self.exchange[level - 1](branches)
            branches = [block(branch) for block, branch in zip(self.refine, branches, strict=False)]
            carried = self.enlarge[level](branches[-1]) if level < 2 else carried
        restored = large + SPREAD * self.last(self.merge(branches)[-1])  # (N, 3, 4h, 4w)
        return (restored, found) if need_transfer else restored

    def search(self, large: Tensor, reference: Tensor) -> Transfer:
        """Find and copy the reference's textures.

        Args:
            large: (N, 3, 4h, 4w) the enlarged image, without detail.
            reference: (N, 3, Hr, Wr).

        Returns:
            What was found.
        """
        (H, W), (Hr, Wr) = large.shape[-2:], reference.shape[-2:]
        small = bicubic(reference, (Hr // SCALE, Wr // SCALE))
        blurred = bicubic(small, (Hr, Wr))  # as blurred as the image: only so do they compare
        query, key = self.extractor(large)[2], self.extractor(blurred)[2]
        strength, index = best_match(query, key, max_scores=self.max_scores)
        h, w = H // SCALE, W // SCALE
        levels = zip(reversed(self.extractor(reference)), (1, 2, 4), strict=True)
        textures = tuple(transfer_texture(value, index, (h, w), factor) for value, factor in levels)
        return Transfer(strength.view(-1, 1, h, w), index, textures)

    def _check(self, x: Tensor, reference: Tensor) -> None:
        who = type(self).__name__
        for name, images in (("x", x), ("reference", reference)):
            check_tensor(who, name, images)
        check_shape(who, "x", x, "images are (N, 3, h, w)", N=None, C=3, h=None, w=None)
        check_shape(who, "reference", reference, "give one reference per image", N=len(x), C=3, Hr=None, Wr=None)
        check_same_kind(who, "x", x=x, reference=reference)
        for name, images in (("x", x), ("reference", reference)):
            check_pixels(who, name, images)
        if any(side < SCALE or side % SCALE for side in reference.shape[-2:]):
            got, fix = tuple(reference.shape[-2:]), "crop it: reference[..., : H - H % 4, : W - W % 4]"
            raise ValueError(explain(who, "reference", "a multiple of 4 in height and width", got, fix))

    def _check_sizes(self, features: int, res_blocks: Sequence[int], channels: Sequence[int], max_scores: int) -> None:
        who = type(self).__name__
        check_count(who, "features", features)
        check_count(who, "max_scores", max_scores)
        for name, sizes, count in (("res_blocks", res_blocks, 4), ("extractor_channels", channels, 3)):
            if len(sizes) != count:
                raise ValueError(explain(who, name, f"{count} numbers", list(sizes), "give one for each part"))
            for size in sizes:
                check_count(who, name, size, minimum=0 if name == "res_blocks" else 1)


class CrossScale(nn.Module):
    """Tell branches of several scales of each other: each hears all others, brought to its own size.

    Smaller ones are enlarged bicubically and mixed by a 1 x 1 convolution, larger ones shrunk by convolutions of
    stride 2; a 3 x 3 convolution of all of them is added to the branch.

    Args:
        features: Channels of every branch.
        scales: Number of branches, each twice as large as the one before.
        only_largest: Whether only the largest branch hears the others, as at the end.

    Example:
        >>> small, large = CrossScale(4, 2)([torch.zeros(1, 4, 3, 5), torch.zeros(1, 4, 6, 10)])
        >>> small.shape[2:], large.shape[2:]
        (torch.Size([3, 5]), torch.Size([6, 10]))

    Source:
        Yang et al. 2020, section 3.2, arXiv:2006.04139.
    """

    def __init__(self, features: int, scales: int, *, only_largest: bool = False) -> None:
        super().__init__()
        self.targets = [scales - 1] if only_largest else list(range(scales))
        self.bring = nn.ModuleDict(
            {
                f"{source}-{target}": _bring(features, target - source)
                for target in self.targets
                for source in range(scales)
                if source != target
            }
        )
        self.mix = nn.ModuleDict({str(target): _conv(scales * features, features) for target in self.targets})

    def forward(self, branches: list[Tensor]) -> list[Tensor]:
        """Let the branches hear each other.

        Args:
            branches: (N, C, h, w), (N, C, 2h, 2w), ...

        Returns:
            The same, changed.
        """
        heard = list(branches)
        for target in self.targets:
            size = tuple(branches[target].shape[-2:])
            others = [
                branch if source == target else self.bring[f"{source}-{target}"](_grown(branch, size))
                for source, branch in enumerate(branches)
            ]
            heard[target] = branches[target] + F.relu(self.mix[str(target)](torch.cat(others, dim=1)))
        return heard


def perceptual_loss(restored: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """Compare two images by what a network says of them: the mean squared difference of features, over all levels.

    With features of the true image this is the perceptual loss; with the copied ones of a ``Transfer`` the loss that
    asks the result to show the copied texture.

    Args:
        restored: Features of the restored image, one tensor per level.
        wanted: Features that they should be, of the same shapes.

    Returns:
        One number, the mean over the levels.

    Raises:
        ValueError: If the levels are not of the same number and shapes.

    Example:
        >>> perceptual_loss([torch.ones(1, 2)], [torch.zeros(1, 2)]).item()
        1.0

    Source:
        Johnson et al. 2016, arXiv:1603.08155; Yang et al. 2020, section 3.3, arXiv:2006.04139.
    """
    shapes = [[tuple(level.shape) for level in levels] for levels in (restored, wanted)]
    if shapes[0] != shapes[1] or not shapes[0]:
        fix = "describe two images of one size with one extractor"
        raise ValueError(explain("perceptual_loss", "wanted", f"of shapes {shapes[0]}", shapes[1], fix))
    return torch.stack([F.mse_loss(one, other) for one, other in zip(restored, wanted, strict=True)]).mean()


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, stride=stride)


def _blocks(features: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(ResidualBlock(features) for _ in range(count)))


def _double(features: int) -> nn.Sequential:
    return nn.Sequential(_conv(features, 4 * features), nn.PixelShuffle(2), nn.ReLU())


def _bring(features: int, doublings: int) -> nn.Sequential:
    """From one scale to another: a 1 x 1 convolution behind the enlargement, or strides of 2."""
    layers = [nn.Conv2d(features, features, kernel_size=1)] if doublings > 0 else []
    layers += [_conv(features, features, stride=2) for _ in range(-doublings)]
    return nn.Sequential(*layers, nn.ReLU())


def _grown(branch: Tensor, size: tuple[int, int]) -> Tensor:
    return bicubic(branch, size) if branch.shape[-1] < size[1] or branch.shape[-2] < size[0] else branch


def _check_maps(who: str, *, query: Tensor, key: Tensor) -> None:
    for name, features in (("query", query), ("key", key)):
        check_tensor(who, name, features)
    check_shape(who, "query", query, "features are (N, C, h, w)", N=None, C=None, h=None, w=None)
    N, C = query.shape[:2]
    check_shape(who, "key", key, "describe both images with one extractor", N=N, C=C, hr=None, wr=None)
    check_same_kind(who, "query", query=query, key=key)


def _check_transfer(value: Tensor, index: Tensor, size: tuple[int, int], factor: int) -> None:
    who = "transfer_texture"
    check_count(who, "factor", factor)
    check_tensor(who, "value", value)
    check_tensor(who, "index", index, floating=False)
    check_shape(who, "value", value, "features are (N, C, f hr, f wr)", N=None, C=None, H=None, W=None)
    if any(side % factor or side < factor for side in value.shape[-2:]):
        got, fix = tuple(value.shape[-2:]), "pass the factor of this level: 1, 2 or 4"
        raise ValueError(explain(who, "value", f"a multiple of factor {factor} in height and width", got, fix))
    check_shape(
        who,
        "index",
        index,
        "pass what hard_index returns, and the size of the image",
        N=len(value),
        P=size[0] * size[1],
    )
    if index.dtype != torch.int64:
        raise TypeError(explain(who, "index", "an int64 tensor", index.dtype, "convert it with index.long()"))
    places = (value.shape[-2] // factor) * (value.shape[-1] // factor)
    if index.device.type != "meta" and index.numel() and not 0 <= int(index.min()) <= int(index.max()) < places:
        got = f"{int(index.min())} to {int(index.max())}"
        raise ValueError(explain(who, "index", f"from 0 to {places - 1}", got, "search in this reference"))
