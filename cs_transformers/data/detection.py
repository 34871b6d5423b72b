"""Pictures with boxes: scenes of the embedded world and photos with annotations in COCO's form, one batch for both.

A truth is a dict of tensors in pixels: "labels" (M,) int64, "boxes" (M, 4) as (x0, y0, x1, y1), "crowd_labels" and
"crowd_boxes" for regions that no single box describes, and "size" (2,) as (height, width). A target is what a detector
learns from: "labels" and "boxes", the latter as (cx, cy, w, h) in fractions of the image; crowds are left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cs_transformers.boxes import xywh_to_xyxy, xyxy_to_cxcywh
from cs_transformers.data.paths import DamagedFileError, find_data
from cs_transformers.data.scene_shapes import SHAPES
from cs_transformers.data.scenes import Scene, make_scenes, render
from cs_transformers.detection import pad_images
from cs_transformers.errors import check_choice, check_count, explain

Truth = dict[str, Tensor]
SCENE_SEEDS = {"train": 231, "val": 1_000_234, "test": 2_000_003}  # series that share no scene
SCENE_COUNTS = {"train": 4000, "val": 256, "test": 500}
SPLITS = ("train", "val", "test")


class DetectionDataset(Dataset):
    """Pictures with their truths, read one by one.

    Args:
        truths: What is to be found in each picture.
        read: Function of the number of a picture that gives its pixels (3, H, W) uint8.
        classes: Names of the classes; labels are indices into them.
        names: Name of each picture, a file name for instance; None numbers them.
        dropped: How many boxes of the source had no area inside the picture and are left out.
        side: Scale every picture so that its shorter side has so many pixels; None leaves them as they are. Truths stay
            in pixels of the source.

    Raises:
        ValueError: If ``side`` is not positive.

    Example:
        >>> image, target = scene_boxes(3, seed=231)[2]
        >>> image.shape, target["labels"].tolist(), target["boxes"].shape
        (torch.Size([3, 64, 64]), [1, 3], torch.Size([2, 4]))
    """

    def __init__(
        self,
        truths: Sequence[Truth],
        read: Callable[[int], Tensor],
        classes: Sequence[str],
        *,
        names: Sequence[str] | None = None,
        dropped: int = 0,
        side: int | None = None,
    ) -> None:
        if side is not None:
            check_count("DetectionDataset", "side", side)
        self.truths, self.read, self.classes, self.dropped = list(truths), read, tuple(classes), dropped
        self.side = side
        self.names = [str(number) for number in range(len(truths))] if names is None else list(names)

    def __len__(self) -> int:
        return len(self.truths)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Give the pixels (3, H, W) uint8 of a picture, and its target with the "size" that it has here."""
        image = scale_shorter(self.read(index), self.side)
        return image, {**target_of(self.truths[index]), "size": torch.tensor(image.shape[1:])}

    def batch(self, indices: Tensor) -> dict[str, Any]:
        """Read some pictures at once.

        Args:
            indices: (N,) numbers of the pictures.

        Returns:
            What :func:`collate_detections` makes of them.
        """
        return collate_detections([self[index] for index in indices.tolist()])


def target_of(truth: Truth) -> dict[str, Tensor]:
    """Turn a truth in pixels into what a detector learns from.

    Args:
        truth: What is to be found in a picture.

    Returns:
        "labels" (M,), "boxes" (M, 4) as (cx, cy, w, h) in fractions, and "size" (2,) as (height, width) in pixels.

    Example:
        >>> boxes, size = torch.tensor([[10.0, 0.0, 30.0, 20.0]]), torch.tensor([20, 40])
        >>> target_of({"labels": torch.tensor([1]), "boxes": boxes, "size": size})["boxes"].tolist()
        [[0.5, 0.5, 0.5, 1.0]]
    """
    scale = truth["size"].flip(0).repeat(2)  # (width, height, width, height)
    boxes = xyxy_to_cxcywh(truth["boxes"] / scale)
    return {"labels": truth["labels"], "boxes": boxes, "size": truth["size"]}


def scale_shorter(image: Tensor, side: int | None) -> Tensor:
    """Scale a picture so that its shorter side has a number of pixels.

    Args:
        image: (3, H, W) uint8.
        side: The number; None changes nothing.

    Returns:
        (3, H', W') uint8.

    Example:
        >>> scale_shorter(torch.zeros(3, 40, 60, dtype=torch.uint8), 20).shape
        torch.Size([3, 20, 30])
    """
    if side is None or min(image.shape[1:]) == side:
        return image
    from torchvision.transforms.v2.functional import resize

    return resize(image, [side], antialias=True)


def collate_detections(examples: Sequence[tuple[Tensor, dict[str, Tensor]]]) -> dict[str, Any]:
    """Make one batch of pictures of different sizes.

    Args:
        examples: Pairs of pixels (3, H, W) and target.

    Returns:
        "images" (N, 3, H, W), "pixel_mask" (N, H, W) bool or None where no picture is padded, and "targets", a list.

    Example:
        >>> batch = collate_detections([scene_boxes(2, seed=231)[0], scene_boxes(2, seed=231)[1]])
        >>> batch["images"].shape, batch["pixel_mask"], len(batch["targets"])
        (torch.Size([2, 3, 64, 64]), None, 2)
    """
    images = [image for image, _ in examples]
    if len({image.shape for image in images}) == 1:
        return {"images": torch.stack(images), "pixel_mask": None, "targets": [target for _, target in examples]}
    pixels, real = pad_images(images)
    return {"images": pixels, "pixel_mask": real, "targets": [target for _, target in examples]}


def scene_boxes(count: int, seed: int, *, first: int = 0) -> DetectionDataset:
    """Make scenes whose objects are to be found and named by their shape.

    Args:
        count: Number of scenes.
        seed: Seed of the series.
        first: Number of the first scene of the series.

    Returns:
        The data set; its pictures are kept in memory.

    Example:
        >>> scene_boxes(5, seed=231).classes
        ('circle', 'square', 'triangle', 'cross', 'diamond')
    """
    scenes = make_scenes(count, seed, first=first)
    side = scenes[0].side if scenes else 64
    pixels = np.zeros((count, 3, side, side), dtype=np.uint8)
    for index, scene in enumerate(scenes):
        pixels[index] = render(scene).transpose(2, 0, 1)
    images = torch.from_numpy(pixels)
    names = [scene.url for scene in scenes]
    return DetectionDataset([scene_truth(scene) for scene in scenes], images.__getitem__, SHAPES, names=names)


def scene_truth(scene: Scene) -> Truth:
    """Tell what is to be found in a scene.

    Args:
        scene: A scene.

    Returns:
        Its truth: shapes and boxes.

    Example:
        >>> scene = make_scenes(1, seed=231)[0]
        >>> scene_truth(scene)["boxes"].tolist() == [list(item.box) for item in scene.objects]
        True
    """
    labels = torch.tensor([SHAPES.index(item.shape) for item in scene.objects])
    boxes = torch.tensor([item.box for item in scene.objects], dtype=torch.float32).reshape(-1, 4)
    return _truth(labels, boxes, torch.zeros(0, dtype=torch.int64), torch.zeros(0, 4), (scene.side, scene.side))


def _truth(labels: Tensor, boxes: Tensor, crowd_labels: Tensor, crowd_boxes: Tensor, size: tuple[int, int]) -> Truth:
    crowd = {"crowd_labels": crowd_labels, "crowd_boxes": crowd_boxes}
    return {"labels": labels, "boxes": boxes, **crowd, "size": torch.tensor(size)}


def read_coco_boxes(path: str | os.PathLike[str], photos: str | os.PathLike[str]) -> DetectionDataset:
    """Open photos with boxes in COCO's form.

    Categories are numbered anew from 0 in the order of their ids. Photos without annotations stay. Boxes are cut off at
    the edges of the photo; those without an area then are left out and counted.

    Args:
        path: The json file with images, annotations and categories.
        photos: Folder of the photos.

    Returns:
        The data set; photos are read when they are asked for.

    Raises:
        FileNotFoundError: If the file or a photo is missing.
        DamagedFileError: If the file is cut off or not of this form.
        ValueError: If an annotation names an image or a category that the file does not have.
    """
    path, photos = Path(path).absolute(), Path(photos).absolute()
    who = "read_coco_boxes"
    if not path.is_file():
        raise FileNotFoundError(f"{who}: expected the file {path}, there is none. Check the path.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        images, annotations = content["images"], content["annotations"]
        categories = sorted(content["categories"], key=lambda category: category["id"])
        by_image: dict[int, list[Mapping[str, Any]]] = {image["id"]: [] for image in images}
        _sort_by_image(path, annotations, by_image, {category["id"] for category in categories})
        label = {category["id"]: index for index, category in enumerate(categories)}
        read = [_read_truth(image, by_image[image["id"]], label) for image in images]
        names, classes = [image["file_name"] for image in images], [category["name"] for category in categories]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:80]}"
        raise DamagedFileError(
            f"{who}: {path} is incomplete or no COCO file of boxes (size {path.stat().st_size}; {reason}): "
            "delete it and get it again."
        ) from error
    dropped = sum(count for _, count in read)
    reader = _PhotoReader(photos, names)
    return DetectionDataset([truth for truth, _ in read], reader, classes, names=names, dropped=dropped)


class _PhotoReader:
    """Reads a photo of a folder as (3, H, W) uint8; unlike a closure it can go to another process."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, list(names)

    def __call__(self, index: int) -> Tensor:
        return read_photo(self.folder / self.names[index])


def read_photo(path: str | os.PathLike[str]) -> Tensor:
    """Read a photo, turned upright as its camera noted.

    Args:
        path: A file that Pillow can read; grey and transparent ones become RGB.

    Returns:
        (3, H, W) uint8.

    Raises:
        FileNotFoundError: If there is no such file.
        DamagedFileError: If it is no picture.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    path = Path(path).absolute()
    if not path.is_file():
        raise FileNotFoundError(
            f"read_photo: expected the photo {path}, there is none. Check the folder of the photos."
        )
    try:
        with Image.open(path) as opened:
            pixels = np.array(ImageOps.exif_transpose(opened).convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise DamagedFileError(f"read_photo: {path} cannot be read as a picture: get it again.") from error
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def _sort_by_image(
    path: Path,
    annotations: Sequence[Mapping[str, Any]],
    by_image: dict[int, list[Mapping[str, Any]]],
    categories: set[int],
) -> None:
    for entry in annotations:
        for name, known in (("image_id", by_image), ("category_id", categories)):
            if entry[name] not in known:
                got = f"{entry[name]} in annotation {entry['id']} of {path.name}"
                raise ValueError(explain("read_coco_boxes", name, "one that the file lists", got, "mend the file"))
        by_image[entry["image_id"]].append(entry)


def _read_truth(
    image: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], label: Mapping[int, int]
) -> tuple[Truth, int]:
    height, width = int(image["height"]), int(image["width"])
    boxes = xywh_to_xyxy(torch.tensor([entry["bbox"] for entry in entries], dtype=torch.float32).reshape(-1, 4))
    edge = torch.tensor([width, height, width, height], dtype=torch.float32)
    boxes = torch.minimum(boxes.clamp(min=0), edge)
    labels = torch.tensor([label[entry["category_id"]] for entry in entries], dtype=torch.int64)
    crowd = torch.tensor([bool(entry.get("iscrowd", 0)) for entry in entries], dtype=torch.bool)
    kept = (boxes[:, 2:] > boxes[:, :2]).all(dim=1)
    one, many = kept & ~crowd, kept & crowd
    return _truth(labels[one], boxes[one], labels[many], boxes[many], (height, width)), int((~kept).sum())


def load_boxes(
    data: str | os.PathLike[str] = "scenes", split: str = "train", count: int | None = None, *, side: int | None = None
) -> DetectionDataset:
    """Open a detection data set.

    Args:
        data: "scenes"; "bccd" (blood cells) or "coco", looked for in ``CST_DATA_DIR`` and the cache; or a folder with
            ``instances_{split}.json`` and ``images``, or with ``annotations/instances_{split}2017.json`` and
            ``{split}2017``.
        split: "train", "val" or "test"; COCO publishes no boxes of "test".
        count: Take the first so many pictures; None takes all.
        side: Scale photos so that their shorter side has so many pixels; None leaves them. Scenes are never scaled.

    Returns:
        The data set.

    Raises:
        FileNotFoundError: If the data is not on disk; the message says where it was looked for.
        ValueError: If ``split`` is unknown or ``count`` below 1.

    Example:
        >>> len(load_boxes("scenes", "val", count=10))
        10
    """
    check_choice("load_boxes", "split", split, SPLITS)
    if count is not None:
        check_count("load_boxes", "count", count)
    if str(data) == "scenes":
        return scene_boxes(count or SCENE_COUNTS[split], SCENE_SEEDS[split])
    folder = _folder_of(data)
    for listing, photos in _layouts(split):
        if (folder / listing).is_file():
            return _part(read_coco_boxes(folder / listing, folder / photos), count, side)
    wanted = " or ".join(listing for listing, _ in _layouts(split))
    raise FileNotFoundError(
        f"load_boxes: expected {wanted} in {folder}, there is none. Put a COCO file of boxes there, or use scenes."
    )


def _part(data: DetectionDataset, count: int | None, side: int | None) -> DetectionDataset:
    options = {"names": data.names[:count], "dropped": data.dropped, "side": side}
    return DetectionDataset(data.truths[:count], data.read, data.classes, **options)


def _layouts(split: str) -> list[tuple[str, str]]:
    plain = [(f"instances_{split}.json", "images")]
    return plain + [(f"annotations/instances_{split}{year}.json", f"{split}{year}") for year in (2017, 2014)]


def _folder_of(data: str | os.PathLike[str]) -> Path:
    names = {"bccd": ("bccd",), "coco": ("coco2017", "coco_mini")}.get(str(data))
    folder = Path(data).expanduser().absolute() if names is None else find_data(*names)
    if folder is None or not folder.is_dir():
        where = folder if names is None else f"a folder {' or '.join(names)} in CST_DATA_DIR or the cache"
        raise FileNotFoundError(
            f"load_boxes: expected {where}, there is none. Name a folder with COCO's form of boxes, or use scenes."
        )
    return folder
