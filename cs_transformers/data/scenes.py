"""The embedded world: small pictures of coloured shapes, each known exactly, so that nothing needs a download.

A scene holds one to three objects on a grid of cells of 21 pixels. It knows their shape, colour, size, cell and box;
from it come the picture and the class (here) and the captions (``scene_language``).
Every scene follows from two integers, the seed and its number, and every pixel from integer arithmetic: the same seed
gives the same bytes on every platform and numpy version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

SHAPES = ("circle", "square", "triangle", "cross", "diamond")
SIZES = ("small", "large")
COLOURS = {  # far apart in CIELAB also for protan, deutan and tritan eyes; a test simulates all three
    "red": (205, 40, 15),
    "yellow": (236, 226, 80),
    "green": (15, 163, 117),
    "blue": (43, 93, 226),
    "purple": (158, 130, 214),
    "white": (250, 250, 250),
}
SCENE_CLASSES = tuple(f"{size} {shape}" for size in SIZES for shape in SHAPES)

CELL = 21  # pixels; the largest object, radius 9, fits with a margin that leaves room for jitter
RADII = {"small": (5, 5), "large": (8, 9)}  # smallest and largest radius of each size
_JITTER = 3  # pixels; neighbours of one row or column stay aligned to the eye
_SUB = 8  # an edge is placed in eighths of a pixel and sampled four times per axis
_UNIT = 60  # outlines below are in sixtieths of the radius
_OUTLINES = {
    "square": ((-51, -51), (51, -51), (51, 51), (-51, 51)),
    "triangle": ((0, -60), (60, 52), (-60, 52)),
    "diamond": ((0, -60), (38, 0), (0, 60), (-38, 0)),
    "cross": (
        (-20, -60), (20, -60), (20, -20), (60, -20), (60, 20), (20, 20),
        (20, 60), (-20, 60), (-20, 20), (-60, 20), (-60, -20), (-20, -20),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class SceneObject:
    """One coloured shape: what it is and where it lies.

    Args:
        shape: One of ``SHAPES``.
        colour: A key of ``COLOURS``.
        size: One of ``SIZES``.
        cell: (row, column) of the grid, from the top left.
        centre: (x, y) in pixels.
        radius: Half the height of the box, in pixels.
        box: (x0, y0, x1, y1) in pixels; the pixels x0..x1-1, y0..y1-1 hold every touched one, and no row or column is
            empty.
        shade: Added to each colour channel, in grey levels, so that no colour is one fixed triple.
    """

    shape: str
    colour: str
    size: str
    cell: tuple[int, int]
    centre: tuple[int, int]
    radius: int
    box: tuple[int, int, int, int]
    shade: int = 0


@dataclass(frozen=True)
class Scene:
    """A picture before it is drawn.

    Args:
        objects: One to three objects in distinct cells, no two alike in shape, colour and size.
        side: Height and width of the picture in pixels.
        grid: Cells per axis.
        background: (level, slope down, slope right): grey level of the middle and its change over the picture.
        seed: Seed of the series the scene belongs to.
        number: Its place in that series; both together also seed the noise and the wording of its captions.
        limits: Fewest and most objects a scene of the series may hold.
    """

    objects: tuple[SceneObject, ...]
    side: int
    grid: int
    background: tuple[int, int, int]
    seed: int
    number: int

    limits: tuple[int, int]

    @property
    def url(self) -> str:
        """Address that ``scene_from_url`` understands, in place of a photo's web address."""
        low, high = self.limits
        return f"scene://{self.seed}/{self.number}?side={self.side}&objects={low}-{high}"


def draw(rng: np.random.RandomState, low: int, high: int) -> int:
    """Draw an integer from low..high, both included, of one fixed width, so that no platform draws differently."""
    return int(rng.randint(low, high + 1, dtype=np.int64))


def make_scenes(
    count: int, seed: int, *, objects: tuple[int, int] = (1, 3), side: int = 64, first: int = 0
) -> list[Scene]:
    """Invent scenes.

    Args:
        count: How many.
        seed: Seed of the series, 0 .. 2^32 - 1; scene i of a series does not depend on ``count``.
        objects: Fewest and most objects in a scene; every number between is equally likely.
        side: Height and width of the pictures in pixels; 64 holds 3 x 3 cells, 32 a single one.
        first: Number of the first scene of the series to make.

    Returns:
        The scenes ``first .. first + count - 1`` of the series.

    Raises:
        ValueError: If a number is out of range or the grid has no room for the objects.

    Example:
        >>> [len(scene.objects) for scene in make_scenes(4, seed=231)]
        [1, 1, 2, 1]
    """
    low, high = objects
    grid = side // CELL
    if count < 0 or first < 0:
        raise ValueError(
            f"make_scenes: expected count and first of at least 0, got {count} and {first}: pass both >= 0."
        )
    if not 0 <= seed < 2**32:
        raise ValueError(f"make_scenes: expected a seed from 0 to 2**32 - 1, got {seed}: pass another seed.")
    if not 1 <= low <= high <= grid * grid:
        raise ValueError(
            f"make_scenes: expected 1 <= fewest <= most <= {grid * grid} objects for a side of {side}, got {low} to "
            f"{high}: pass fewer objects or a larger side ({CELL} pixels hold one object)."
        )
    return [_make_scene(seed, number, low, high, side, grid) for number in range(first, first + count)]


def _make_scene(seed: int, number: int, low: int, high: int, side: int, grid: int) -> Scene:
    rng = np.random.RandomState([seed, number])
    count = draw(rng, low, high)
    objects: list[SceneObject] = []
    while len(objects) < count:
        new = _make_object(rng, side, grid)
        kind = (new.shape, new.colour, new.size)
        if all(new.cell != old.cell and kind != (old.shape, old.colour, old.size) for old in objects):
            objects.append(new)
    background = (draw(rng, 30, 60), draw(rng, -16, 16), draw(rng, -16, 16))
    return Scene(tuple(objects), side, grid, background, seed, number, (low, high))


def _make_object(rng: np.random.RandomState, side: int, grid: int) -> SceneObject:
    cell = (draw(rng, 0, grid - 1), draw(rng, 0, grid - 1))
    shape = SHAPES[draw(rng, 0, len(SHAPES) - 1)]
    colour = list(COLOURS)[draw(rng, 0, len(COLOURS) - 1)]
    size = SIZES[draw(rng, 0, 1)]
    radius = draw(rng, *RADII[size])
    offset = (side - grid * CELL + 1) // 2 + CELL // 2
    # a lone cell leaves the whole picture free, cells side by side only what keeps boxes apart and rows aligned
    room = side // 2 - radius - 1 if grid == 1 else min(_JITTER, CELL // 2 - radius)
    y, x = (offset + CELL * index + draw(rng, -room, room) for index in cell)
    box = _bounding_box(shape, x, y, radius)
    return SceneObject(shape, colour, size, cell, (x, y), radius, box, shade=draw(rng, -12, 12))


@cache
def _coverage(shape: str, radius: int) -> np.ndarray:
    """Count, for each pixel around the centre, how many of its 4 x 4 sample points lie inside: (2R+1, 2R+1), 0..16."""
    steps = np.arange(-radius * _SUB - _SUB // 2 + 1, radius * _SUB + _SUB // 2, 2, dtype=np.int64)  # 4 a pixel
    x, y = steps[None, :] * _UNIT, steps[:, None] * _UNIT
    reach = radius * _SUB
    if shape == "circle":
        inside = x * x + y * y <= (reach * _UNIT) ** 2
    else:
        inside = np.zeros((len(steps), len(steps)), dtype=bool)
        corners = _OUTLINES[shape]
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):  # even-odd rule
            spans = (y0 * reach <= y) != (y1 * reach <= y)
            side_of = (x - x0 * reach) * (y1 - y0) - (y - y0 * reach) * (x1 - x0)
            inside ^= spans & ((side_of < 0) == (y1 > y0))
    size = 2 * radius + 1
    covered = inside.reshape(size, 4, size, 4).sum(axis=(1, 3))
    covered.setflags(write=False)
    return covered


def _bounding_box(shape: str, x: int, y: int, radius: int) -> tuple[int, int, int, int]:
    covered = _coverage(shape, radius) > 0
    rows, columns = np.flatnonzero(covered.any(axis=1)), np.flatnonzero(covered.any(axis=0))
    left, top = x - radius, y - radius
    return (left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1)


def render(scene: Scene) -> np.ndarray:
    """Draw a scene with smooth edges, a background that changes slowly, and a little noise.

    Args:
        scene: What to draw.

    Returns:
        (side, side, 3) uint8, RGB.

    Example:
        >>> render(make_scenes(1, seed=231)[0]).shape
        (64, 64, 3)
    """
    side = scene.side
    level, down, right = scene.background
    ramp = np.arange(side, dtype=np.int64) * 2 - side
    grey = level + (ramp[:, None] * down + ramp[None, :] * right) // (2 * side)  # (side, side)
    image = np.repeat(grey[:, :, None], 3, axis=2)  # (side, side, 3)
    for item in scene.objects:
        x, y = item.centre[0] - item.radius, item.centre[1] - item.radius
        part = image[y : y + 2 * item.radius + 1, x : x + 2 * item.radius + 1]
        share = _coverage(item.shape, item.radius)[:, :, None]
        colour = np.array(COLOURS[item.colour], dtype=np.int64) + item.shade
        part[:] = (part * (16 - share) + colour * share + 8) // 16
    noise = np.random.RandomState([scene.seed, scene.number, 1]).randint(-8, 9, size=image.shape, dtype=np.int64)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def scene_from_url(url: str) -> Scene:
    """Make the scene again that a ``scene://`` address names.

    Args:
        url: Address as ``Scene.url`` gives it.

    Returns:
        The scene.

    Raises:
        ValueError: If the address has another form.

    Example:
        >>> scene = make_scenes(1, seed=231)[0]
        >>> scene_from_url(scene.url) == scene
        True
    """
    match = re.fullmatch(r"scene://(\d+)/(\d+)\?side=(\d+)&objects=(\d+)-(\d+)", url)
    if match is None:
        raise ValueError(
            f"scene_from_url: expected scene://SEED/NUMBER?side=SIDE&objects=FEWEST-MOST, got {url!r}: pass scene.url."
        )
    seed, number, side, low, high = (int(group) for group in match.groups())
    return make_scenes(1, seed, objects=(low, high), side=side, first=number)[0]


def scene_class(scene: Scene) -> int:
    """Tell the class of a scene with one object: its size and shape, whatever its colour and place.

    Args:
        scene: A scene with a single object.

    Returns:
        Index into ``SCENE_CLASSES``.

    Raises:
        ValueError: If the scene holds more than one object.

    Example:
        >>> scene = make_scenes(1, seed=231, objects=(1, 1), side=32)[0]
        >>> SCENE_CLASSES[scene_class(scene)]
        'large diamond'
    """
    if len(scene.objects) != 1:
        raise ValueError(
            f"scene_class: expected a scene with one object, got {len(scene.objects)}: make scenes with objects=(1, 1)."
        )
    item = scene.objects[0]
    return SCENE_CLASSES.index(f"{item.size} {item.shape}")


def scene_classification(count: int, seed: int, *, side: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Make a classification set of single shapes in CIFAR's format: ten classes, named by ``SCENE_CLASSES``.

    Args:
        count: Number of pictures M.
        seed: Seed of the series.
        side: Height and width of the pictures in pixels.

    Returns:
        Images (M, side, side, 3) uint8 and labels (M,) int64.

    Example:
        >>> images, labels = scene_classification(6, seed=231)
        >>> images.shape, labels.tolist()
        ((6, 32, 32, 3), [9, 5, 1, 5, 0, 0])
    """
    scenes = make_scenes(count, seed, objects=(1, 1), side=side)
    images = np.zeros((count, side, side, 3), dtype=np.uint8)
    for index, scene in enumerate(scenes):
        images[index] = render(scene)
    return images, np.array([scene_class(scene) for scene in scenes], dtype=np.int64)
