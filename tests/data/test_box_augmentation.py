"""Changes of pictures that their boxes follow."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cs_transformers.boxes import cxcywh_to_xyxy
from cs_transformers.data.box_augmentation import BoxAugmentation
from cs_transformers.data.detection import collate_detections


def marked(height: int = 40, width: int = 60, box: tuple[int, ...] = (10, 5, 30, 20)) -> tuple[Tensor, dict]:
    """A dark picture whose one object is bright: where it is can be read off the pixels."""
    image = torch.full((3, height, width), 20, dtype=torch.uint8)
    x0, y0, x1, y1 = box
    image[:, y0:y1, x0:x1] = 220
    centre = torch.tensor([[(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]])
    return image, {"labels": torch.tensor([2]), "boxes": centre, "size": torch.tensor([height, width])}


def changed(augment: BoxAugmentation, seed: int, *examples: tuple[Tensor, dict]) -> dict:
    return augment(collate_detections(list(examples)), torch.Generator().manual_seed(seed))


def bright(image: Tensor) -> list[int]:
    rows, columns = torch.nonzero(image[0] > 120, as_tuple=True)
    return [int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1]


@pytest.mark.parametrize("seed", range(12))
def test_the_box_stays_around_its_object(seed: int) -> None:
    batch = changed(BoxAugmentation(upside_down=True, colours=0.1), seed, marked())
    target = batch["targets"][0]
    height, width = target["size"].tolist()
    assert batch["images"].shape[2:] == (height, width)
    assert target["labels"].tolist() == [2]
    corners = cxcywh_to_xyxy(target["boxes"])[0] * torch.tensor([width, height, width, height])
    torch.testing.assert_close(corners, torch.tensor(bright(batch["images"][0])).float(), atol=1e-3, rtol=0)


def test_every_kind_of_change_happens() -> None:
    augment = BoxAugmentation(upside_down=True)
    seen = [changed(augment, seed, marked()) for seed in range(30)]
    centres = torch.stack([batch["targets"][0]["boxes"][0, :2] for batch in seen])
    assert (centres[:, 0] < 0.5).any()
    assert (centres[:, 0] > 0.5).any()
    assert (centres[:, 1] < 0.5).any()
    assert (centres[:, 1] > 0.5).any()
    sizes = {tuple(batch["targets"][0]["size"].tolist()) for batch in seen}
    assert (40, 60) in sizes
    assert len(sizes) > 3


def test_without_upside_down_nothing_is_turned_over() -> None:
    augment = BoxAugmentation(crop=False, colours=0.0)
    for seed in range(10):
        batch = changed(augment, seed, marked())
        assert batch["targets"][0]["boxes"][0, 1].item() == pytest.approx(12.5 / 40)
        assert sorted(batch["images"].unique().tolist()) == [20, 220]


def test_objects_whose_middle_is_cut_off_go_with_their_labels() -> None:
    examples = [marked(box=(0, 0, 20, 20)), marked(box=(40, 20, 60, 40))]
    image, target = examples[0]
    image = torch.maximum(image, examples[1][0])
    boxes = torch.cat([one["boxes"] for _, one in examples])
    both = {"labels": torch.tensor([0, 1]), "boxes": boxes, "size": target["size"]}
    counts = set()
    for seed in range(40):
        made = changed(BoxAugmentation(colours=0.0), seed, (image, both))["targets"][0]
        assert len(made["labels"]) == len(made["boxes"])
        counts.add(len(made["labels"]))
    assert counts == {1, 2}


def test_pictures_of_several_sizes_and_without_objects_pass() -> None:
    empty = {"labels": torch.zeros(0, dtype=torch.int64), "boxes": torch.zeros(0, 4), "size": torch.tensor([24, 32])}
    for seed in range(5):
        nothing = torch.zeros(3, 24, 32, dtype=torch.uint8), empty
        batch = changed(BoxAugmentation(sides=(20, 30)), seed, marked(), nothing)
        assert [len(target["labels"]) for target in batch["targets"]] == [1, 0]
        assert {min(target["size"].tolist()) for target in batch["targets"]} <= {20, 30}


def test_the_generator_decides_and_the_global_one_is_left_alone() -> None:
    augment, before = BoxAugmentation(), torch.get_rng_state()
    one, same, other = (changed(augment, seed, marked(), marked())["images"] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert one.shape != other.shape or not torch.equal(one, other)


def test_a_side_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="sides must be a positive whole number"):
        BoxAugmentation(sides=(240, 0))
