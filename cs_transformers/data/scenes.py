"""The embedded world: small pictures of coloured shapes, each known exactly, so that nothing needs a download.

A scene holds one to three objects on a grid of cells. It knows their shape, colour, size, cell and box;
from it come the picture and the class (here) and the captions (``scene_language``).
Every scene follows from two integers, the seed and its number, and every pixel from integer arithmetic: the same seed
gives the same bytes on every platform and numpy version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from cs_transformers.data.scene_shapes import COLOURS, SHAPES, SIZES, bounding_box, coverage
from cs_transformers.errors import check_count, explain

SCENE_CLASSES = tuple(f"{shape} on the {half}" for half in ("left", "right") for shape in SHAPES)

_SMALL_RADIUS = 5  # pixels; below, shapes are hard to tell apart
_JITTER = 3  # pixels; neighbours of one row or column stay aligned to the eye
_SMALLEST_CELL = 16  # pixels; a large object of radius 7 fits and a small one has room


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
        return f"scene://{self.seed}/{self.number}?side={self.side}&grid={self.grid}&objects={low}-{high}"


def draw(rng: np.random.RandomState, low: int, high: int) -> int:
    """Draw an integer of one fixed width, so that no platform draws differently.

    Args:
        rng: Source of the draw.
        low: Smallest result.
        high: Largest result, itself included.

    Returns:
        The integer.
    """
    return int(rng.randint(low, high + 1, dtype=np.int64))


def make_scenes(
    count: int, seed: int, *, objects: tuple[int, int] = (1, 3), side: int = 64, grid: int = 3, first: int = 0
) -> list[Scene]:
    """Invent scenes.

    Args:
        count: How many.
        seed: Seed of the series, 0 .. 2^32 - 1; scene i of a series does not depend on ``count``.
        objects: Fewest and most objects in a scene; every number between is equally likely.
        side: Height and width of the pictures in pixels.
        grid: Cells per axis, of at least 16 pixels each; captions need 3, classes 2.
        first: Number of the first scene of the series to make.

    Returns:
        The scenes ``first .. first + count - 1`` of the series.

    Raises:
        TypeError: If a number is not whole, or ``objects`` no pair.
        ValueError: If a number is out of range or the grid has no room for the objects.

    Example:
        >>> [len(scene.objects) for scene in make_scenes(4, seed=231)]
        [1, 1, 2, 1]
    """
    for name, value in (("count", count), ("first", first), ("seed", seed)):
        check_count("make_scenes", name, value, minimum=0)
    check_count("make_scenes", "side", side, minimum=_SMALLEST_CELL)
    check_count("make_scenes", "grid", grid)
    for name, value in (("seed", seed), ("first + count - 1", first + count - 1)):  # both seed the generator
        if value >= 2**32:
            raise ValueError(explain("make_scenes", name, "below 2**32", value, "pass a smaller one"))
    if not isinstance(objects, (tuple, list)) or len(objects) != 2:
        fix = "pass (2, 2) for two in every scene"
        raise TypeError(explain("make_scenes", "objects", "(fewest, most)", repr(objects), fix))
    low, high = objects
    for value in objects:
        check_count("make_scenes", "objects", value)
    if not 1 <= grid <= side // _SMALLEST_CELL:
        expected = f"1 to {side // _SMALLEST_CELL} on a side of {side} pixels"
        raise ValueError(explain("make_scenes", "grid", expected, grid, "pass fewer cells or a larger side"))
    if not 1 <= low <= high <= grid * grid:
        expected = f"(fewest, most) with 1 <= fewest <= most <= {grid * grid}"
        raise ValueError(explain("make_scenes", "objects", expected, (low, high), "pass fewer objects or more cells"))
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
    width = side // grid
    reach = (width - 1) // 2  # from the centre of a cell to its edge
    large = 2 * width // 5  # 8 in a cell of 21 pixels, 6 in one of 16
    radius = _SMALL_RADIUS if size == "small" else draw(rng, large, large + 1)
    room = min(_JITTER, reach - radius)
    first = (side - grid * width + 1) // 2 + width // 2
    y, x = (first + width * index + draw(rng, -room, room) for index in cell)
    box = bounding_box(shape, x, y, radius)
    return SceneObject(shape, colour, size, cell, (x, y), radius, box, shade=draw(rng, -12, 12))


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
        share = coverage(item.shape, item.radius)[:, :, None]
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
    match = re.fullmatch(r"scene://(\d+)/(\d+)\?side=(\d+)&grid=(\d+)&objects=(\d+)-(\d+)", url)
    if match is None:
        form = "scene://SEED/NUMBER?side=SIDE&grid=GRID&objects=FEWEST-MOST"
        raise ValueError(explain("scene_from_url", "url", form, repr(url), "pass the url of a scene"))
    seed, number, side, grid, low, high = (int(group) for group in match.groups())
    return make_scenes(1, seed, objects=(low, high), side=side, grid=grid, first=number)[0]


def scene_class(scene: Scene) -> int:
    """Tell the class of a scene with one object: its shape and the half it lies in, whatever its colour and size.

    Colours say nothing about it, and without the order of the patches nobody can do better than every second one.

    Args:
        scene: A scene of 2 x 2 cells with a single object.

    Returns:
        Index into ``SCENE_CLASSES``.

    Raises:
        ValueError: If the scene holds more objects or other cells.

    Example:
        >>> scene = make_scenes(1, seed=231, objects=(1, 1), side=32, grid=2)[0]
        >>> SCENE_CLASSES[scene_class(scene)]
        'triangle on the right'
    """
    if len(scene.objects) != 1 or scene.grid != 2:
        got = f"{scene.grid} x {scene.grid} cells and {len(scene.objects)} objects"
        fix = "make scenes with objects=(1, 1), side=32, grid=2"
        raise ValueError(explain("scene_class", "scene", "one of 2 x 2 cells with a single object", got, fix))
    item = scene.objects[0]
    return SHAPES.index(item.shape) + len(SHAPES) * item.cell[1]


def scene_classification(count: int, seed: int, *, side: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Make a classification set in CIFAR's format: single shapes of ten classes, named by ``SCENE_CLASSES``.

    Args:
        count: Number of pictures M.
        seed: Seed of the series.
        side: Height and width of the pictures in pixels.

    Returns:
        Images (M, side, side, 3) uint8 and labels (M,) int64.

    Example:
        >>> images, labels = scene_classification(6, seed=231)
        >>> images.shape, labels.tolist()
        ((6, 32, 32, 3), [7, 6, 2, 8, 7, 1])
    """
    scenes = make_scenes(count, seed, objects=(1, 1), side=side, grid=2)
    images = np.zeros((count, side, side, 3), dtype=np.uint8)
    for index, scene in enumerate(scenes):
        images[index] = render(scene)
    return images, np.array([scene_class(scene) for scene in scenes], dtype=np.int64)
