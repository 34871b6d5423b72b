"""Image features in the layout of CS231n: computed once, reduced by PCA, stored where ``load_coco_data`` reads them."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset
from tqdm import tqdm

from cs_transformers.data.backbones import weights_fingerprint
from cs_transformers.data.captions import feature_file
from cs_transformers.data.photos import PhotoFolder, StoredImages
from cs_transformers.errors import check_choice, check_count, explain
from cs_transformers.files import atomic_path, ensure_folder

SHARD = 256  # photos between two points from which an interrupted run goes on
Photos = Dataset[Tensor] | Tensor


class PCA(NamedTuple):
    """The directions in which rows vary most: mean (D,), components (k, D), variances (k,), all float64."""

    mean: np.ndarray
    components: np.ndarray
    variances: np.ndarray

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Give the coordinates along the components.

        Args:
            rows: (..., D) numbers.

        Returns:
            (..., k) float64.
        """
        return (rows.astype(np.float64) - self.mean) @ self.components.T


def fit_pca(batches: Iterable[np.ndarray], width: int) -> PCA:
    """Find the leading principal components of rows that need not fit into memory together.

    The covariance is summed up in float64, batch by batch. A component's sign is chosen so that its largest entry is
    positive; two runs, and two machines, then agree.

    Args:
        batches: Arrays (M_i, D), read once.
        width: Number of components k.

    Returns:
        The mean and the components, the one of the largest variance first.

    Raises:
        ValueError: If ``width`` exceeds D or the number of rows minus one.

    Example:
        >>> pca = fit_pca([np.array([[0.0, 0.0], [2.0, 2.0]]), np.array([[4.0, 4.0]])], width=1)
        >>> pca.components.round(3).tolist(), pca.variances.round(3).tolist()
        ([[0.707, 0.707]], [8.0])

    Source:
        Pearson 1901; the sum about a shifted origin as in Chan, Golub and LeVeque 1983.
    """
    check_count("fit_pca", "width", width)
    count, shift, total, products = 0, None, None, None
    for batch in batches:
        rows = batch.astype(np.float64)
        if shift is None:  # sums about a point near the mean keep their digits
            shift = rows.mean(axis=0)
            total, products = np.zeros_like(shift), np.zeros((len(shift), len(shift)))
        rows -= shift
        count += len(rows)
        total += rows.sum(axis=0)
        products += rows.T @ rows
    most = 0 if shift is None else min(len(shift), count - 1)
    if width > most:
        expected = f"at most {most}, for {count} rows of width {0 if shift is None else len(shift)}"
        raise ValueError(explain("fit_pca", "width", expected, width, "keep fewer components or give more rows"))
    covariance = (products - np.outer(total, total) / count) / (count - 1)
    variances, vectors = np.linalg.eigh(covariance)  # ascending
    components = vectors.T[::-1][:width]
    largest = np.take_along_axis(components, np.abs(components).argmax(axis=1)[:, None], axis=1)
    return PCA(shift + total / count, components * np.sign(largest), variances[::-1][:width])


def caption_photos(
    folder: str | os.PathLike[str],
    photos: str | os.PathLike[str] | None = None,
    *,
    size: int = 192,
    splits: Sequence[str] = ("train", "val"),
) -> dict[str, Dataset[Tensor]]:
    """Find the pictures of a captions data set in the layout of CS231n, row by row.

    Args:
        folder: The folder of the data set. Its ``{split}2014_images.h5`` holds the pictures (the embedded world), or
            its ``{split}2014_images.txt`` names them, or its ``{split}2014_urls.txt`` holds their paths.
        photos: Folder with the photos that are named; None takes the paths in ``{split}2014_urls.txt``.
        size: Height and width in pixels that photos are squashed to; stored pictures keep their size.
        splits: The splits wanted.

    Returns:
        A data set of (3, H, W) uint8 pictures for each split.

    Raises:
        FileNotFoundError: If the lists or photos are missing.
    """
    folder = Path(folder).expanduser().absolute()
    found: dict[str, Dataset[Tensor]] = {}
    for split in splits:
        stored = folder / f"{split}2014_images.h5"
        if photos is None and stored.is_file():
            found[split] = StoredImages(stored)
            continue
        names = _names(folder, split, prefer_names=photos is not None)
        top = folder if photos is None else Path(photos).expanduser().absolute()
        found[split] = PhotoFolder(top, [_locate(top, split, name) for name in names], size=size)
    return found


def _names(folder: Path, split: str, *, prefer_names: bool) -> list[str]:
    kinds = ("images", "urls") if prefer_names else ("urls", "images")
    for path in (folder / f"{split}2014_{kind}.txt" for kind in kinds):
        if path.is_file():
            return _lines(path)
    raise FileNotFoundError(
        f"caption_photos: {folder} has no list of the pictures of {split} ({split}2014_urls.txt). Check the path; "
        "write_caption_files makes such a folder from a json of captions, `cst data make scenes` from scenes."
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # splitlines would cut at rarer signs too


def _locate(top: Path, split: str, name: str) -> str:
    """Find a photo by its listed name, with or without the folders that a list or an archive puts before it."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    candidates = (name, base, f"{split}2014/{base}", f"{split}2017/{base}")
    return next((candidate for candidate in candidates if (top / candidate).is_file()), name)


def extract_features(
    backbone: nn.Module,
    images: Photos,
    *,
    batch_size: int = 32,
    workers: int = 0,
    device: str | torch.device = "cpu",
) -> Iterator[tuple[Tensor, Tensor]]:
    """Run a network over pictures, batch by batch, in evaluation mode.

    Args:
        backbone: Module from (N, 3, H, W) uint8 to global (N, D) and grid (N, S, G) features.
        images: (M, 3, H, W) uint8, or a data set of (3, H, W) uint8 pictures.
        batch_size: Pictures at once, N.
        workers: Processes that read photos; 0 reads in this one.
        device: Where the network lies.

    Returns:
        An iterator over (N, D) and (N, S, G) float32 on the CPU, in order.

    Raises:
        ValueError: If ``batch_size`` is below 1 or ``workers`` below 0.
    """
    check_count("extract_features", "batch_size", batch_size)
    check_count("extract_features", "workers", workers, minimum=0)
    return _extract(backbone, DataLoader(images, batch_size=batch_size, num_workers=workers), device)


def _extract(
    backbone: nn.Module, batches: Iterable[Tensor], device: str | torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in batches:
        was_training = backbone.training  # asked each time: between two batches the caller may go on training
        backbone.eval()
        try:
            with torch.no_grad():
                pooled, grid = backbone(batch.to(device))
        finally:
            backbone.train(was_training)
        yield pooled.float().cpu(), grid.float().cpu()


def write_features(
    folder: str | os.PathLike[str],
    backbone: nn.Module,
    photos: Mapping[str, Photos] | None = None,
    *,
    kinds: Sequence[str] = ("global", "grid"),
    pca: int = 512,
    grid_pca: int | None = 128,
    dtype: str = "float16",
    batch_size: int = 32,
    workers: int = 0,
    device: str | torch.device = "cpu",
    overwrite: bool = False,
    progress: bool | None = None,
) -> list[Path]:
    """Compute features of every picture of a captions data set and store them in the layout of CS231n.

    Global vectors go to ``{split}2014_vgg16_fc7.h5`` whole and to ``..._pca.h5`` reduced, grids to
    ``{split}2014_grid.h5``: the names that ``load_coco_data`` reads, whatever the network; the attribute ``backbone``
    says which it was. PCAs are fitted on the training split. Files appear together and only when all are whole; an
    interrupted run goes on where it was, give or take 256 pictures.

    Args:
        folder: The folder of the data set.
        backbone: Module from (N, 3, H, W) uint8 to global (N, D) and grid (N, S, G) features, with the attributes
            ``name`` and ``image_size``: what ``load_backbone`` gives, or a ``SceneEncoder``.
        photos: Pictures of each split, ``"train"`` among them; None takes those of ``caption_photos``.
        kinds: Which features to store: ``"global"``, ``"grid"`` or both.
        pca: Width of the reduced global vectors. No wider vectors, or fewer training photos, stay as they are.
        grid_pca: Width of the grid's vectors, likewise; None keeps them whole.
        dtype: ``"float16"`` or ``"float32"``.
        batch_size: Pictures at once.
        workers: Processes that read photos; 0 reads in this one.
        device: Where to compute; the network is moved there.
        overwrite: Replace features that are there.
        progress: True or False shows or hides a bar; None shows it on a terminal only.

    Returns:
        The files written.

    Raises:
        ValueError: If an argument is none of the choices, or pictures and captions differ in number.
        FileNotFoundError: If pictures are missing.
        FileExistsError: If there are features already and ``overwrite`` is not set.
        PermissionError: If the folder cannot be written to.
    """
    who = "write_features"
    for kind in kinds:
        check_choice(who, "kinds", kind, ("global", "grid"))
    check_choice(who, "dtype", dtype, ("float16", "float32"))
    for name, value in (("pca", pca), ("grid_pca", 1 if grid_pca is None else grid_pca), ("batch_size", batch_size)):
        check_count(who, name, value)
    folder = Path(folder).expanduser().absolute()
    photos = caption_photos(folder, size=backbone.image_size) if photos is None else photos
    _check_rows(folder, photos)
    ensure_folder(folder, who=who)
    targets = [folder / name for kind in dict.fromkeys(kinds) for name in _files(kind, photos)]
    if not overwrite:
        _refuse_existing(targets)
    shards = _Shards(folder, backbone, photos, tuple(sorted(set(kinds))), dtype)
    shards.compute(backbone.to(device), {"batch_size": batch_size, "workers": workers, "device": device}, progress)
    notes = {"backbone": backbone.name, "image_size": backbone.image_size, "weights": weights_fingerprint(backbone)}
    with ExitStack() as stack:  # all files get their names at its end, or none does
        places = {path.name: stack.enter_context(atomic_path(path, who=who)) for path in targets}
        for kind in kinds:
            _store(shards, kind, pca if kind == "global" else grid_pca, places, notes)
    shards.remove()
    return targets


def _refuse_existing(targets: Iterable[Path]) -> None:
    existing = [path for path in targets if path.exists()]
    if existing:
        names = ", ".join(path.name for path in existing)
        raise FileExistsError(
            f"write_features: {existing[0].parent} has features already ({names}). Pass overwrite=True to replace them."
        )


def _check_rows(folder: Path, photos: Mapping[str, Photos]) -> None:
    if "train" not in photos:
        fix = "PCAs are fitted on the training split, pass it as well"
        raise ValueError(explain("write_features", "photos", "with the split 'train'", sorted(photos), fix))
    for split, images in photos.items():
        if not len(images):
            raise ValueError(explain("write_features", "photos", f"at least one of {split}", 0, "leave the split out"))
        listed = folder / f"{split}2014_urls.txt"
        rows = len(_lines(listed)) if listed.is_file() else len(images)
        if rows != len(images):
            expected = f"{rows} pictures of {split}, one for each line of {listed.name}"
            fix = "pass the pictures in the order of the lines"
            raise ValueError(explain("write_features", "photos", expected, len(images), fix))


def _files(kind: str, splits: Iterable[str]) -> list[str]:
    if kind == "grid":
        return [feature_file(split, "grid") for split in splits]
    return [feature_file(split, "global", reduced) for split in splits for reduced in (False, True)]


class _Shards:
    """Unreduced features on their way: small files, each written whole, in a folder named after all that made them."""

    def __init__(
        self, folder: Path, backbone: nn.Module, photos: Mapping[str, Photos], kinds: tuple[str, ...], dtype: str
    ) -> None:
        self.photos, self.kinds, self.dtype = photos, kinds, dtype
        parts = [weights_fingerprint(backbone), *kinds, dtype, str(SHARD)]
        parts += [f"{split} {_fingerprint(images)}" for split, images in photos.items()]
        self.place = folder / f".features-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"

    def path(self, split: str, start: int) -> Path:
        return self.place / f"{split}-{start:08d}.npz"

    def compute(self, backbone: nn.Module, settings: Mapping[str, Any], progress: bool | None) -> None:
        """Run the network over what no earlier, interrupted run has left here."""
        total = sum(len(images) for images in self.photos.values())
        hide = None if progress is None else not progress
        with tqdm(total=total, unit="photo", desc="features", disable=hide, leave=False) as bar:
            for split, images in self.photos.items():
                for start in range(0, len(images), SHARD):
                    rows = range(start, min(start + SHARD, len(images)))
                    if not self.path(split, start).is_file():
                        self._keep(split, start, extract_features(backbone, Subset(images, rows), **settings))
                    bar.update(len(rows))

    def _keep(self, split: str, start: int, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        both = (torch.cat(parts).numpy() for parts in zip(*batches, strict=True))
        arrays = {kind: array for kind, array in zip(("global", "grid"), both, strict=True) if kind in self.kinds}
        if any(np.abs(array).max() > np.finfo(self.dtype).max for array in arrays.values()):
            fix = "pass dtype='float32'"
            raise ValueError(explain("write_features", "dtype", "wide enough for the features", self.dtype, fix))
        with atomic_path(self.path(split, start), who="write_features") as temporary:
            np.savez(temporary, **{kind: array.astype(self.dtype) for kind, array in arrays.items()})

    def rows(self, split: str, kind: str) -> Iterator[np.ndarray]:
        for start in range(0, len(self.photos[split]), SHARD):
            with np.load(self.path(split, start), allow_pickle=False) as shard:
                yield shard[kind]

    def remove(self) -> None:
        for place in self.place.parent.glob(".features-*"):  # those of runs with other settings as well
            shutil.rmtree(place, ignore_errors=True)


def _fingerprint(images: Photos) -> str:
    if isinstance(images, Tensor):
        return hashlib.sha256(images.contiguous().numpy().tobytes()).hexdigest()
    # Pictures that cannot be told from others are computed anew each time.
    return images.fingerprint() if hasattr(images, "fingerprint") else secrets.token_hex(16)


def _store(shards: _Shards, kind: str, width: int | None, places: Mapping[str, Path], notes: Mapping[str, Any]) -> None:
    """Write the files of one kind of features, reduced by what the training pictures show."""
    first = next(shards.rows("train", kind))
    vectors = len(shards.photos["train"]) * (first.size // first.shape[-1] // len(first))
    pca = None
    if width is not None and width < min(first.shape[-1], vectors):
        pca = fit_pca((rows.reshape(-1, rows.shape[-1]) for rows in shards.rows("train", kind)), width)
    for split, images in shards.photos.items():
        if kind == "global":
            whole = places[feature_file(split, "global", pca_features=False)]
            _write(whole, shards.rows(split, kind), len(images), notes)
        blocks = (rows if pca is None else pca.transform(rows).astype(rows.dtype) for rows in shards.rows(split, kind))
        _write(places[feature_file(split, kind)], blocks, len(images), notes, pca)


def _write(
    path: Path, blocks: Iterable[np.ndarray], count: int, notes: Mapping[str, Any], pca: PCA | None = None
) -> None:
    with h5py.File(path, "w") as file:
        file.attrs.update(notes)
        if pca is not None:
            file["pca_mean"], file["pca_components"] = pca.mean, pca.components
        done = 0
        for block in blocks:
            if not done:
                file.create_dataset("features", shape=(count, *block.shape[1:]), dtype=block.dtype)
            file["features"][done : done + len(block)] = block
            done += len(block)
