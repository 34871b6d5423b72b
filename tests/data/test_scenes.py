from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
import torch
from matplotlib.path import Path as Outline
from torch import nn
from torch.nn import functional as F

from cs_transformers.data import scene_shapes
from cs_transformers.data.scene_shapes import COLOURS, SHAPES, SIZES, coverage
from cs_transformers.data.scenes import (
    SCENE_CLASSES,
    make_scenes,
    render,
    scene_class,
    scene_classification,
    scene_from_url,
)

# What other machines gave. A change of these means another world: raise _FORMAT in scene_files and say so in CHANGELOG.
PICTURES = "e1634499b4a8323395ccc983c53b06fd3d1ff2b3461b8ea531d17fc2f8b46e0e"
CLASSES = "1de4656c74b069a34ef2139e9774cf70c829a89f691d6595dbcf21110cf875f3"


def digest(*arrays: np.ndarray) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def test_a_seed_gives_the_pictures_it_gave_on_every_other_machine() -> None:
    assert digest(*(render(scene) for scene in make_scenes(20, 231))) == PICTURES
    images, labels = scene_classification(20, 231)
    assert digest(images, labels.astype("<i8")) == CLASSES


def test_another_process_with_another_hash_seed_draws_the_same_pictures() -> None:
    code = (
        "import hashlib; from cs_transformers.data.scenes import make_scenes, render;"
        "print(hashlib.sha256(b''.join(render(s).tobytes() for s in make_scenes(20, 231))).hexdigest())"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert answer.stdout.strip() == PICTURES


def test_a_scene_depends_on_seed_and_number_alone_and_leaves_numpys_generator_alone() -> None:
    before = np.random.get_state()[1].copy()
    scenes = make_scenes(9, 5)
    for scene in scenes:
        render(scene)
    assert make_scenes(4, 5, first=5) == scenes[5:]
    assert make_scenes(9, 6) != scenes
    assert np.array_equal(np.random.get_state()[1], before)


def test_the_address_of_a_scene_makes_it_again() -> None:
    for options in ({}, {"side": 32, "grid": 2, "objects": (1, 1)}, {"objects": (2, 5), "side": 80, "grid": 4}):
        for scene in make_scenes(3, 11, first=7, **options):
            assert scene_from_url(scene.url) == scene
            assert len(scene.url) <= 63  # the width of Stanford's urls


@pytest.mark.parametrize("options", [{}, {"side": 32, "grid": 2, "objects": (1, 4)}, {"side": 97, "grid": 4}])
def test_objects_lie_in_their_own_cells_inside_the_picture_and_apart(options: dict) -> None:
    for scene in make_scenes(150, 3, **options):
        assert len({item.cell for item in scene.objects}) == len(scene.objects)
        assert len({(item.shape, item.colour, item.size) for item in scene.objects}) == len(scene.objects)
        for item in scene.objects:
            x0, y0, x1, y1 = item.box
            assert 0 <= x0 < x1 <= scene.side
            assert 0 <= y0 < y1 <= scene.side
        for one, other in combinations(scene.objects, 2):
            (a0, b0, a1, b1), (c0, d0, c1, d1) = one.box, other.box
            assert min(a1, c1) <= max(a0, c0) or min(b1, d1) <= max(b0, d0), "boxes overlap"
            if one.cell[1] < other.cell[1]:  # what "left of" will mean is what the eye sees
                assert other.centre[0] - one.centre[0] >= scene.side // scene.grid - 6


def test_a_box_holds_every_touched_pixel_and_no_empty_border() -> None:
    for scene in make_scenes(60, 8, objects=(1, 1)):
        item = scene.objects[0]
        x0, y0, x1, y1 = item.box
        background = np.abs(render(scene).astype(int) - scene.background[0]).max(axis=2)
        outside = background.copy()
        outside[y0:y1, x0:x1] = 0
        assert outside.max() <= 8 + 16, "something is drawn outside the box"  # noise and slope of the background
        share = coverage(item.shape, item.radius)
        left, top = item.centre[0] - item.radius, item.centre[1] - item.radius
        inside = share[y0 - top : y1 - top, x0 - left : x1 - left]
        assert inside.sum() == share.sum()
        assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


@pytest.mark.parametrize("shape", SHAPES)
def test_smooth_edges_agree_with_matplotlibs_point_in_polygon(shape: str) -> None:
    radius = 9
    corners = scene_shapes._OUTLINES.get(shape)
    angles = np.linspace(0, 2 * np.pi, 721)
    outline = np.stack([np.cos(angles), np.sin(angles)], 1) if corners is None else np.array(corners) / 60
    samples = (np.arange(4 * (2 * radius + 1)) + 0.5) / 4 - 0.5 - radius
    x, y = np.meshgrid(samples, samples)
    inside = Outline(outline * radius).contains_points(np.stack([x.ravel(), y.ravel()], 1)).reshape(x.shape)
    expected = inside.reshape(2 * radius + 1, 4, 2 * radius + 1, 4).sum((1, 3))
    difference = np.abs(coverage(shape, radius) - expected)
    assert difference.max() <= 4  # samples on the very edge may fall to either side
    assert difference.sum() <= 0.03 * expected.sum()
    assert ((expected > 0) & (expected < 16)).any()
    assert not coverage(shape, radius).flags.writeable


def test_shapes_differ_from_each_other_at_every_size() -> None:
    for radius in (5, 6, 9):
        for one, other in combinations(SHAPES, 2):
            assert np.abs(coverage(one, radius) - coverage(other, radius)).sum() > 16 * radius


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    ratio = to_xyz @ np.clip(linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    curve = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * curve[1] - 16, 500 * (curve[0] - curve[1]), 200 * (curve[1] - curve[2])])


# Vienot, Brettel, Mollon 1999: cone responses, and what a missing cone type leaves of them
TO_CONES = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
EYES = {
    "all cones": np.eye(3),
    "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    "tritan": np.array([[1, 0, 0], [0, 1, 0], [-0.395913, 0.801109, 0]]),
}


@pytest.mark.parametrize("eye", EYES)
def test_colours_stay_apart_for_colour_blind_eyes(eye: str) -> None:
    seen = {}
    for name, colour in {**COLOURS, "background": (45, 45, 45)}.items():
        share = np.array(colour) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        seen[name] = lab(np.linalg.inv(TO_CONES) @ EYES[eye] @ TO_CONES @ linear)
    distances = {(a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(seen, 2)}
    assert min(distances.values()) > 25, min(distances, key=distances.get)  # 2.3 is just noticeable


def test_every_attribute_cell_and_number_of_objects_turns_up_about_equally_often() -> None:
    scenes = make_scenes(900, 17)
    items = [item for scene in scenes for item in scene.objects]
    for values, kinds in (
        ([item.shape for item in items], SHAPES),
        ([item.colour for item in items], tuple(COLOURS)),
        ([item.size for item in items], SIZES),
        ([item.cell for item in items], [(row, column) for row in range(3) for column in range(3)]),
        ([len(scene.objects) for scene in scenes], (1, 2, 3)),
    ):
        share = len(values) / len(kinds)
        assert all(0.8 * share < values.count(kind) < 1.2 * share for kind in kinds)


def test_the_class_is_shape_and_half_of_the_picture() -> None:
    assert len(set(SCENE_CLASSES)) == 10
    for scene in make_scenes(80, 4, objects=(1, 1), side=32, grid=2):
        item = scene.objects[0]
        half = "left" if item.centre[0] < 16 else "right"
        assert SCENE_CLASSES[scene_class(scene)] == f"{item.shape} on the {half}"


def test_classes_are_balanced_and_come_in_cifars_format() -> None:
    images, labels = scene_classification(1500, 9)
    assert images.shape == (1500, 32, 32, 3)
    assert images.dtype == np.uint8
    assert labels.dtype == np.int64
    assert all(110 < count < 190 for count in np.bincount(labels, minlength=10))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, rate: float) -> nn.Module:
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        chosen = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


class SmallViT(nn.Module):
    """Made of torch's own parts, so that this test says something of the data alone."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 8, 8)
        self.positions = nn.Parameter(torch.randn(1, 16, 64) * 0.02)
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.encoder(tokens).mean(1))


@pytest.mark.learning
def test_a_small_vit_learns_the_classes_in_450_steps_and_colour_statistics_do_not() -> None:
    torch.manual_seed(231)
    (images, y), (val_images, val_y) = scene_classification(4000, 1), scene_classification(500, 2)
    x, val_x = ((torch.from_numpy(a).permute(0, 3, 1, 2) / 255 - 0.2) / 0.2 for a in (images, val_images))
    y, val_y = torch.from_numpy(y), torch.from_numpy(val_y)

    def accuracy(model: nn.Module, inputs: torch.Tensor) -> float:
        with torch.no_grad():
            return (model(inputs).argmax(1) == val_y).float().mean().item()

    statistics = [torch.cat([a.mean((2, 3)), a.std((2, 3))], 1) for a in (x, val_x)]
    baseline = train(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 10)), statistics[0], y, 600, 1e-2)
    assert accuracy(baseline, statistics[1]) < 0.35
    assert accuracy(train(SmallViT(), x, y, 450, 1e-3), val_x) > 0.9


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((-1, 0), {}, "count must be a whole number of at least 0, got -1"),
        ((2.5, 0), {}, "count must be a whole number"),
        ((1, -4), {}, "seed must be a whole number of at least 0, got -4"),
        ((1, 2**32), {}, "seed must be below 2\\*\\*32"),
        ((1, 0), {"first": -1}, "first must be a whole number of at least 0"),
        ((1, 0), {"side": 10}, "side must be a whole number of at least 16"),
        ((1, 0), {"grid": 5}, "grid must be 1 to 4 on a side of 64 pixels, got 5"),
        ((1, 0), {"objects": (2, 1)}, "1 <= fewest <= most <= 9, got \\(2, 1\\)"),
        ((1, 0), {"objects": (1, 10)}, "pass fewer objects or more cells"),
        ((1, 0), {"objects": 2}, r"objects must be \(fewest, most\), got 2; pass \(2, 2\)"),
        ((1, 0), {"objects": (1.0, 2)}, r"objects must be a positive whole number, got 1.0"),
        ((1, 0), {"grid": 2.0}, r"grid must be a positive whole number, got 2.0 \(float\)"),
        ((2, 0), {"first": 2**32 - 1}, r"first \+ count - 1 must be below 2\*\*32, got 4294967296"),
    ],
)
def test_make_scenes_refuses_what_it_cannot_make(arguments: tuple, options: dict, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        make_scenes(*arguments, **options)


def test_an_address_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="scene_from_url: url must be scene://SEED/NUMBER"):
        scene_from_url("scene://231")


def test_the_class_of_a_scene_with_several_objects_or_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="got 3 x 3 cells and 1 objects; make scenes with objects=\\(1, 1\\)"):
        scene_class(make_scenes(1, 0, objects=(1, 1))[0])
    with pytest.raises(ValueError, match="got 2 x 2 cells and 2 objects"):
        scene_class(make_scenes(1, 0, objects=(2, 2), side=32, grid=2)[0])
