"""Changes to a picture that its boxes follow: mirroring, cropping, zooming, colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cs_transformers.boxes import cxcywh_to_xyxy, xyxy_to_cxcywh
from cs_transformers.data.detection import collate_detections
from cs_transformers.errors import check_count


class BoxAugmentation:
    """Change every picture of a training batch at random, and its boxes with it.

    Args:
        upside_down: Also mirror top and bottom: for pictures without an up and down, such as those of a microscope.
        crop: Whether to cut out a part of one in two pictures; what is left of an object stays, if its middle does.
        colours: How much brightness, contrast and saturation may change, as a share; 0 leaves them.
        sides: Shorter sides in pixels, one of which each picture is scaled to; none keeps the size.

    Raises:
        ValueError: If a side is not positive.

    Example:
        >>> from cs_transformers.data.detection import scene_boxes
        >>> batch = scene_boxes(2, seed=231).batch(torch.arange(2))
        >>> changed = BoxAugmentation()(batch, torch.Generator().manual_seed(0))
        >>> sorted(changed) == sorted(batch)
        True
    """

    def __init__(
        self, *, upside_down: bool = False, crop: bool = True, colours: float = 0.2, sides: Sequence[int] = ()
    ) -> None:
        for side in sides:
            check_count("BoxAugmentation", "sides", side)
        self.change = _changes(upside_down, crop, colours, sides)

    def __call__(self, batch: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
        """Change a batch.

        Args:
            batch: "images", "pixel_mask" and "targets".
            generator: Decides the changes; torch's global generator is left as it was.

        Returns:
            A batch of the same form; its pictures may have other sizes.
        """
        seed = int(torch.randint(2**31, (1,), generator=generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            sizes = [target["size"].tolist() for target in batch["targets"]]
            images = [image[:, :height, :width] for image, (height, width) in zip(batch["images"], sizes, strict=True)]
            return collate_detections([self.one(*pair) for pair in zip(images, batch["targets"], strict=True)])

    def one(self, image: Tensor, target: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Change a picture; the changes come from torch's global generator.

        Args:
            image: (3, H, W) uint8.
            target: "labels", "boxes" as (cx, cy, w, h) in fractions, and "size".

        Returns:
            Both, changed.
        """
        from torchvision import tv_tensors

        size = torch.tensor(image.shape[1:], dtype=torch.float32, device=image.device)
        boxes = cxcywh_to_xyxy(target["boxes"]) * size.flip(0).repeat(2)
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=tuple(image.shape[1:]))
        image, changed = self.change(tv_tensors.Image(image), {"boxes": boxes, "labels": target["labels"]})
        size = torch.tensor(image.shape[1:], device=boxes.device)
        fractions = xyxy_to_cxcywh(changed["boxes"].as_subclass(Tensor) / size.flip(0).repeat(2))
        return image.as_subclass(Tensor), {"labels": changed["labels"], "boxes": fractions.clamp(0, 1), "size": size}


def _changes(upside_down: bool, crop: bool, colours: float, sides: Sequence[int]) -> nn.Module:
    from torchvision.transforms import v2

    steps: list[nn.Module] = [v2.RandomHorizontalFlip()]
    if upside_down:
        steps.append(v2.RandomVerticalFlip())
    if colours:
        steps.append(v2.ColorJitter(colours, colours, colours))
    if crop:
        steps.append(v2.RandomApply([v2.RandomIoUCrop(min_scale=0.5)], p=0.5))
    if sides:
        steps.append(v2.RandomShortestSize(list(sides), antialias=True))
    # A crop marks the boxes whose middle it leaves out by giving them no area.
    steps += [v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes(min_size=2, labels_getter=_labels)]
    return v2.Compose(steps)


def _labels(inputs: tuple[Any, dict[str, Tensor]]) -> Tensor:
    return inputs[1]["labels"]
