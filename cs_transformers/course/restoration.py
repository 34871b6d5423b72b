"""What ``cst train restore`` and ``cst restore`` do: train and judge a restorer; repair a photo with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cs_transformers.course.training import Outcome, keep_curve
from cs_transformers.errors import check_choice, explain

TEST_IMAGES, TEST_SEED = 100, 2_000_003  # a series that neither training nor validation draws from
MAX_PIXELS = 50_000_000  # of the result: half a gigabyte for each copy that the computation holds
TILES_AT_ONCE = 64


@dataclass(frozen=True)
class Restored:
    """What became of a photo.

    Args:
        path: Where it was written.
        before: Width and height of the given photo.
        after: Width and height of the restored one.
        note: What could not be kept, or "".
    """

    path: Path
    before: tuple[int, int]
    after: tuple[int, int]
    note: str = ""


def train(
    data: str,
    folder: Path,
    *,
    tasks: Sequence[str] | None = None,
    start: Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> Outcome:
    """Train a restorer for several tasks, or one further on one of its tasks, and judge it on images never seen.

    Args:
        data: ``"textures"``, ``"scenes"``, ``"photos"``, or a folder of photos.
        folder: Where checkpoints, history, curve and ``restorer.pt`` are kept.
        tasks: What it shall repair, or None for the recipe's tasks; exactly one with ``start``.
        start: A trained restorer to go on from, its folder or file; None starts anew.
        resume: Go on from the last checkpoint in ``folder``.
        **changes: Fields of ``FitConfig`` that differ from the recipe.

    Returns:
        Decibels before and after, for each task.

    Raises:
        ValueError: If ``start`` is given without one task, or lies in ``folder``.
    """
    from cs_transformers.training import recipes_restoration as recipes

    make = recipes.restoration_recipe if data in recipes.DRAWN else recipes.photo_recipe
    if start is None:
        trained = recipes.train_restorer(data, make(tasks, **changes), folder=folder, resume=resume)
    else:
        task = _one_task(tasks, start, folder)
        begun = recipes.trained_from(recipes.load_restorer(start), make())
        trained = recipes.finetune_restorer(begun, task, data, folder=folder, resume=resume, **changes)
    trained.save(folder)
    judged = trained.recipe.tasks if start is None else tuple(tasks)
    return keep_curve(_figures(trained, judged, data), trained.history, folder)


def restore(photo: Path, out: Path, task: str, weights: Path, *, overlap: int | None = None) -> Restored:
    """Repair a photo and write the result; nothing is written where anything is wrong.

    Args:
        photo: The photo: any size, grey or colour, with transparency, of 8 or 16 bits, rotated by its camera.
        out: The file to write; its suffix says the format.
        task: Which damage to repair.
        weights: A trained restorer, its folder or file.
        overlap: Pixels that neighbouring tiles share; None for the model's choice.

    Returns:
        What became of it.

    Raises:
        FileNotFoundError: If the photo or the weights are missing.
        OSError: If the photo cannot be read or the result not be written.
        ValueError: If the model has no such task, the photo is too large, or the format does not fit.
    """
    from cs_transformers.data.photo_files import check_photo_target, read_photo_file, write_photo_file
    from cs_transformers.restoration import bicubic, task_scale
    from cs_transformers.training.recipes_restoration import load_restorer

    check_photo_target(out)
    if out.exists() and photo.exists() and out.samefile(photo):
        raise ValueError(explain("restore", "out", "another file than the photo", out, "choose another name"))
    model = load_restorer(weights)
    check_choice("restore", "task", task, model.tasks)
    given = read_photo_file(photo, max_pixels=MAX_PIXELS // task_scale(task) ** 2)
    check_photo_target(out, given)
    pixels = model.restore(given.pixels[None], task, overlap=overlap, batch_size=TILES_AT_ONCE)[0]  # (3, s H, s W)
    size = (pixels.shape[1], pixels.shape[2])
    alpha = None if given.alpha is None else bicubic(given.alpha[None], size)[0]
    write_photo_file(out, replace(given, pixels=pixels, alpha=alpha))
    before = (given.pixels.shape[2], given.pixels.shape[1])
    return Restored(out, before, (size[1], size[0]), given.note)


def _one_task(tasks: Sequence[str] | None, start: Path, folder: Path) -> str:
    if tasks is None or len(tasks) != 1:
        fix = "name the one task to go on with, --tasks x2"
        raise ValueError(explain("train", "tasks", "one task where it starts from trained weights", tasks, fix))
    if folder.exists() and start.exists() and folder.resolve() in (start.resolve(), start.resolve().parent):
        raise ValueError(explain("train", "the folder", "another one than that of start", folder, "choose another"))
    return tasks[0]


def _figures(trained: Any, tasks: Sequence[str], data: str) -> dict[str, str]:
    from cs_transformers.data.restoration_sets import load_pairs
    from cs_transformers.training.recipes_restoration import DRAWN, draw_images, measure_gains, score_photos

    found = {}
    if data in DRAWN:
        gains = measure_gains(trained.model, draw_images(data, TEST_IMAGES, trained.recipe.largest, TEST_SEED), tasks)
        found = {f"{task}, PSNR of {data} never seen": _decibels(*pair) for task, pair in gains.items()}
    elif "x2" in tasks:
        try:
            pairs = load_pairs("Set5", 2)
        except FileNotFoundError:
            return {"x2": "not measured: Set5 is not on disk"}
        scores = score_photos(lambda x: trained.model.restore(x, "x2", batch_size=TILES_AT_ONCE), pairs).values()
        found["x2, PSNR on Y of Set5"] = _decibels(*(sum(part) / len(pairs) for part in zip(*scores, strict=True)))
    if not found:
        best = trained.history.best("val_gain")
        found = {f"{task}, gain on held-out photos": f"{best[f'val_gain_{task}']:+.2f} dB" for task in tasks}
    return found


def _decibels(before: float, after: float) -> str:
    return f"{before:.2f} dB before, {after:.2f} dB after ({after - before:+.2f})"
