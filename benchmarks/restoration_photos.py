"""Restoration of real photos: Set5 twice as large, Set14 without noise, and whole photos without seams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.records import Record, Workshop, real_data, record, save_picture
from cs_transformers.data.degradations import as_bytes, as_pixels, degrade
from cs_transformers.data.restoration_sets import load_pairs
from cs_transformers.plots import grouped_bars, restoration_grid
from cs_transformers.restoration import ImageRestorationTransformer, bicubic
from cs_transformers.tiling import tile_starts
from cs_transformers.training.image_scores import psnr, ssim
from cs_transformers.training.recipes_restoration import photo_recipe, score_photos, train_restorer

CHECKPOINT_EVERY, NOISE_SEED, TILES = 250, 7, 64
TASKS = ("denoise30", "denoise50")
SEAM_TASKS, SEAM_GOAL, SEAM_PHOTOS = ("x2", "denoise50"), "<= 1.15", 5  # tiles that share no pixels miss the goal
EXAMPLES = {  # photo: name, top and left of what is drawn
    "img_003": ("butterfly, bicubic x2", 64, 64),
    "img_005": ("woman, bicubic x2", 20, 90),
    "img_012": ("pepper, noise 50", 200, 200),
}
EXAMPLE_SIDE = 112


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on photos of COCO and Flickr8k; an interrupted training goes on from its last checkpoint.

    Args:
        quick: A few steps and two photos, to show that it works.
        seeds: Seeds of start values and order.

    Returns:
        PSNR on Y of Set5 after enlargement, gains on noisy Set14, and how rough the borders of tiles are.
    """
    real_data("sr", "Set5")
    real_data("flickr8k_1000", "images")
    workshop = Workshop("restoration_photos", quick)
    found = [workshop.once(f"seed-{seed}", lambda folder, seed=seed: _measure(folder, seed, quick)) for seed in seeds]
    area, name = "restoration", "restoration_photos"
    records = [
        record(area, f"{name}/set5_x2", [_mean(one["set5"], 1) for one in found], "dB on Y", seeds=seeds,
               goal=None if quick else "> 33.67", peer=_mean(found[0]["set5"], 0)),
        record(area, f"{name}/set5_x2_ssim", [one["ssim"][1] for one in found], "SSIM", seeds=seeds,
               peer=found[0]["ssim"][0]),
        record(area, f"{name}/training_time", [one["seconds"] for one in found], "s", seeds=seeds),
    ]  # fmt: skip
    for task in TASKS:
        gains = [_mean(one[task], 1) - _mean(one[task], 0) for one in found]
        records.append(
            record(area, f"{name}/set14_gain_{task}", gains, "dB", seeds=seeds, goal=None if quick else "> 0")
        )
    for task in SEAM_TASKS:
        smooth, bare = ([one["seams"][task][side] for one in found] for side in ("overlap", "none"))
        records.append(record(area, f"{name}/seams_{task}", smooth, "of elsewhere", seeds=seeds,
                              goal=None if quick else SEAM_GOAL, peer=sum(bare) / len(bare)))  # fmt: skip
    if not quick:
        _draw(found[0])
    return records


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 2, "batch_size": 2} if quick else {"checkpoint_every": CHECKPOINT_EVERY}
    trained = train_restorer("photos", photo_recipe(seed=seed, **changes), folder=folder, resume=True)
    model, pairs = trained.model, load_pairs("Set5", 2)
    pairs = [_corner(pair) for pair in pairs[:2]] if quick else pairs
    enlarged = {pair.name: model.restore(as_pixels(pair.small)[None], "x2", batch_size=TILES) for pair in pairs}
    names = iter([pair.name for pair in pairs])
    scores = score_photos(lambda _: enlarged[next(names)], pairs)
    denoised = {task: _denoised(model, task, quick) for task in TASKS}
    examples = {}
    for pair in pairs:
        plain = bicubic(as_pixels(pair.small)[None], tuple(pair.large.shape[1:]))
        examples |= _example(pair.name, plain, enlarged[pair.name], as_pixels(pair.large)[None])
    return {
        "set5": scores,
        "ssim": _ssim(enlarged, pairs),
        "seams": {task: _seams(model, task, pairs, quick) for task in SEAM_TASKS},
        **{task: found["scores"] for task, found in denoised.items()},
        "examples": examples | denoised["denoise50"]["examples"],
        "seconds": trained.history.rows[-1]["seconds"],
    }


def _corner(pair: Any) -> Any:
    """Keep a corner of a pair for the quick form: 60 x 60 pixels of the small photo."""
    return pair._replace(small=pair.small[:, :60, :60], large=pair.large[:, :120, :120])


def _ssim(enlarged: dict[str, Tensor], pairs: list) -> list[float]:
    """Mean SSIM of bicubic enlargement and of the restored photos, in bytes."""
    found: list[list[float]] = [[], []]
    for pair in pairs:
        good = as_pixels(pair.large)[None]
        plain = bicubic(as_pixels(pair.small)[None], tuple(pair.large.shape[1:]))
        for scores, result in zip(found, (plain, enlarged[pair.name]), strict=True):
            scores.append(ssim(as_pixels(as_bytes(result)), good, border=2).item())
    return [sum(scores) / len(scores) for scores in found]


def _seams(model: ImageRestorationTransformer, task: str, enlarge: list, quick: bool) -> dict[str, float]:
    """How rough results are at the borders of tiles, against elsewhere, with and without tiles that overlap.

    An enlargement is compared with the bicubic one, whose edges would hide the seams. A denoised photo is taken as it
    is: less the noisy one it would be mostly noise, which hides them too.
    """
    found: dict[str, list[float]] = {"overlap": [], "none": []}
    for given in [as_pixels(pair.small)[None] for pair in enlarge] if task == "x2" else _noisy(task, quick):
        for name, overlap in (("overlap", model.img_size // 3), ("none", 0)):
            result = model.restore(given, task, overlap=overlap, batch_size=TILES)
            if task == "x2":
                result = result - bicubic(given, tuple(result.shape[-2:]))
            found[name].append(_roughness(result, tuple(given.shape[-2:]), model.img_size, overlap))
    return {name: sum(values) / len(values) for name, values in found.items()}


def _roughness(image: Tensor, size: tuple[int, int], tile: int, overlap: int) -> float:
    """How much steps between pixels stand out from the two beside them where a tile begins or ends, over elsewhere.

    Args:
        image: (1, 3, s H, s W) result of the tiles.
        size: H and W of what the tiles were cut from.
        tile: Side of a tile.
        overlap: Pixels that neighbours share at least.
    """
    scale, at_seams, elsewhere = image.shape[-1] // size[1], [], []
    for side, turned in zip(size, (image.transpose(-1, -2), image), strict=True):  # borders across, then along
        starts = tile_starts(side, tile, overlap)
        edges = torch.tensor(sorted({edge for start in starts for edge in (start, start + tile)} - {0, side}))
        step = turned.diff(dim=-1)
        out = (step[..., 1:-1] - (step[..., :-2] + step[..., 2:]) / 2).abs().mean(dim=(0, 1, 2))  # before column i + 2
        places = torch.arange(scale, scale * side - 1, scale)  # between pixels that were given: others are smoother
        places = places[places > 1]
        seam = torch.isin(places, scale * edges)
        at_seams.append(out[places[seam] - 2])
        elsewhere.append(out[places[~seam] - 2])
    return (torch.cat(at_seams).mean() / torch.cat(elsewhere).mean()).item()


def _denoised(model: ImageRestorationTransformer, task: str, quick: bool) -> dict[str, dict]:
    """PSNR in RGB of noisy and of denoised photos of Set14, noise not cut to the screen's range; and an example."""
    scores, examples = {}, {}
    for pair in load_pairs("Set14", 2)[: 1 if quick else None]:
        good, noisy = _damaged(pair, task, quick)
        restored = model.restore(noisy, task, batch_size=TILES)
        scores[pair.name] = (psnr(noisy, good).item(), psnr(restored, good).item())
        if pair.name == list(EXAMPLES)[-1]:
            examples = _example(pair.name, noisy, restored, good)
    return {"scores": scores, "examples": examples}


def _noisy(task: str, quick: bool) -> Iterator[Tensor]:
    for pair in load_pairs("Set14", 2)[: 1 if quick else SEAM_PHOTOS]:
        yield _damaged(pair, task, quick)[1]


def _damaged(pair: Any, task: str, quick: bool) -> tuple[Tensor, Tensor]:
    """A good photo, of which the quick form takes a corner, and the same with noise."""
    good = as_pixels(pair.large)[None]
    good = good[..., :80, :80] if quick else good
    return good, degrade(good, task, torch.Generator().manual_seed(NOISE_SEED))


def _example(name: str, *images: Tensor) -> dict[str, list]:
    """Cut the part to draw from the given, the restored and the true photo, as lists of bytes; none of others."""
    if name not in EXAMPLES:
        return {}
    title, top, left = EXAMPLES[name]
    area = (0, ..., slice(top, top + EXAMPLE_SIDE), slice(left, left + EXAMPLE_SIDE))
    return {title: [as_bytes(image.clamp(0, 1))[area].tolist() for image in images]}


def _mean(scores: dict[str, tuple[float, float]], side: int) -> float:
    return sum(pair[side] for pair in scores.values()) / len(scores)


def _draw(found: dict[str, Any]) -> None:
    names, scores = ["baby", "bird", "butterfly", "head", "woman"], found["set5"].values()
    bars = {"bicubic": [pair[0] for pair in scores], "restored": [pair[1] for pair in scores]}
    figure = grouped_bars(names, bars, ylabel="PSNR on Y (dB)", title="Set5, twice as large")
    save_picture("restoration_photos", figure)
    bytes_of = {title: torch.tensor(images, dtype=torch.uint8) for title, images in found["examples"].items()}
    rows = {title: list(as_pixels(images)) for title, images in bytes_of.items()}  # given, restored, true
    save_picture("restoration_photos_examples", restoration_grid(rows, limit=0.2))
