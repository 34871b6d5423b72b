"""Restoration of real photos: Set5 twice as large, Set14 without noise, and whole photos without seams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.records import Record, Workshop, real_data, record, save_picture
from cs_transformers.data.degradations import as_bytes, as_pixels, degrade
from cs_transformers.data.restoration_sets import load_pairs
from cs_transformers.plots import grouped_bars
from cs_transformers.restoration import ImageRestorationTransformer, bicubic
from cs_transformers.tiling import tile_starts
from cs_transformers.training.image_scores import psnr, ssim
from cs_transformers.training.recipes_restoration import photo_recipe, score_photos, train_restorer

CHECKPOINT_EVERY, NOISE_SEED, TILES = 250, 7, 64
TASKS = ("denoise30", "denoise50")


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Train on photos of COCO and Flickr8k; an interrupted training goes on from its last checkpoint.

    Args:
        quick: A few steps and two photos, to show that it works.
        seeds: Seeds of start values and order.

    Returns:
        PSNR on Y of Set5 after enlargement, gains on noisy Set14, and how much rougher seams are than the rest.
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
        record(area, f"{name}/seam_roughness", [one["seams"] for one in found], "of that elsewhere", seeds=seeds,
               goal=None if quick else "<= 1.05", peer=sum(one["seams_without_overlap"] for one in found) / len(found)),
        record(area, f"{name}/training_time", [one["seconds"] for one in found], "s", seeds=seeds),
    ]  # fmt: skip
    for task in TASKS:
        gains = [_mean(one[task], 1) - _mean(one[task], 0) for one in found]
        records.append(
            record(area, f"{name}/set14_gain_{task}", gains, "dB", seeds=seeds, goal=None if quick else "> 0")
        )
    if not quick:
        _draw(found[0]["set5"])
    return records


def _measure(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    changes = {"steps": 2, "batch_size": 2} if quick else {"checkpoint_every": CHECKPOINT_EVERY}
    trained = train_restorer("photos", photo_recipe(seed=seed, **changes), folder=folder, resume=True)
    model, pairs = trained.model, load_pairs("Set5", 2)
    pairs = [_corner(pair) for pair in pairs[:2]] if quick else pairs
    enlarged = {pair.name: model.restore(as_pixels(pair.small)[None], "x2", batch_size=TILES) for pair in pairs}
    names = iter([pair.name for pair in pairs])
    scores = score_photos(lambda _: enlarged[next(names)], pairs)
    roughness = [_roughness(model, pair, enlarged[pair.name]) for pair in pairs]
    bare = [_roughness(model, pair, model.restore(as_pixels(pair.small)[None], "x2", overlap=0), 0) for pair in pairs]
    return {
        "set5": scores,
        "ssim": _ssim(enlarged, pairs),
        "seams": sum(roughness) / len(pairs),
        "seams_without_overlap": sum(bare) / len(pairs),
        **{task: _denoised(model, task, quick) for task in TASKS},
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


def _roughness(model: ImageRestorationTransformer, pair: Any, restored: Tensor, overlap: int | None = None) -> float:
    """How much the steps between neighbouring columns are off where a tile begins or ends, against everywhere else."""
    width, tile = pair.small.shape[2], model.img_size
    starts = tile_starts(width, tile, tile // 3 if overlap is None else overlap)
    edges = sorted({2 * edge for start in starts for edge in (start, start + tile)} - {0, 2 * width})
    good = as_pixels(pair.large)[None]
    off = (restored.diff(dim=-1) - good.diff(dim=-1)).abs().mean(dim=(0, 1, 2))  # (W - 1,) step left of column i + 1
    seams = torch.zeros_like(off, dtype=torch.bool)
    seams[torch.tensor(edges) - 1] = True
    return (off[seams].mean() / off[~seams].mean()).item()


def _denoised(model: ImageRestorationTransformer, task: str, quick: bool) -> dict[str, tuple[float, float]]:
    """PSNR in RGB of noisy and of denoised photos of Set14, noise not cut to the screen's range."""
    found = {}
    for pair in load_pairs("Set14", 2)[: 1 if quick else None]:
        good = as_pixels(pair.large)[None]
        good = good[..., :80, :80] if quick else good
        noisy = degrade(good, task, torch.Generator().manual_seed(NOISE_SEED))
        restored = model.restore(noisy, task, batch_size=TILES)
        found[pair.name] = (psnr(noisy, good).item(), psnr(restored, good).item())
    return found


def _mean(scores: dict[str, tuple[float, float]], side: int) -> float:
    return sum(pair[side] for pair in scores.values()) / len(scores)


def _draw(scores: dict[str, tuple[float, float]]) -> None:
    names = ["baby", "bird", "butterfly", "head", "woman"]
    bars = {"bicubic": [pair[0] for pair in scores.values()], "restored": [pair[1] for pair in scores.values()]}
    figure = grouped_bars(names, bars, ylabel="PSNR on Y (dB)", title="Set5, twice as large")
    save_picture("restoration_photos", figure)
