"""Commands on data sets: cst data list, get, make, features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from .common import data_app


@data_app.command("list", epilog="Example: cst data list")
def data_list() -> None:
    """Show the data sets: what they hold, size, terms, what is here."""
    from cs_transformers.data.download import list_data_sets

    table = Table("name", "what", "download", "here", "terms", title="data sets", title_justify="left")
    for state in list_data_sets():
        entry = state.entry
        here = str(state.folder) if state.ready else "partly" if state.folder else "no"
        table.add_row(entry.name, entry.what, f"{entry.download / 1e6:,.0f} MB", here, entry.licence)
    Console().print(table)


@data_app.command("get", epilog="Example: cst data get cifar10")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from `cst data list`.")],
    force: Annotated[bool, typer.Option(help="Fetch again, to mend a damaged copy.")] = False,
) -> None:
    """Fetch a data set: resumes, checks sums, keeps whole files only."""
    from cs_transformers.data.download import get_data_set

    print(get_data_set(name, force=force))


@data_app.command("make", epilog="Example: cst data make scenes")
def data_make(
    name: Annotated[str, typer.Argument(help="What to make: scenes.")] = "scenes",
    folder: Annotated[Optional[Path], typer.Option(help="Where to; the cache by default.")] = None,  # noqa: UP045
    train: Annotated[int, typer.Option(help="Training scenes, five captions each.")] = 2000,
    val: Annotated[int, typer.Option(help="Validation scenes, of another series.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of both series.")] = 231,
) -> None:
    """Make the embedded world as files in the layout of CS231n, which the loader of the real data reads."""
    from cs_transformers.data import write_scenes
    from cs_transformers.data.paths import cache_dir
    from cs_transformers.errors import check_choice

    check_choice("cst data make", "name", name, ("scenes",))
    print(write_scenes(folder or cache_dir() / "scenes", train=train, val=val, seed=seed))


@data_app.command("features", epilog="Example: cst data features FOLDER --backbone efficientnet-lite0")
def data_features(
    folder: Annotated[Path, typer.Argument(help="Captions folder in the layout of CS231n; gets the feature files.")],
    backbone: Annotated[str, typer.Option(help="efficientnet-lite0, resnet18, resnet50, ...")] = "efficientnet-lite0",
    weights: Annotated[Optional[Path], typer.Option(help="File of the backbone's weights.")] = None,  # noqa: UP045
    photos: Annotated[Optional[Path], typer.Option(help="Folder of the photos; found in the data by default.")] = None,  # noqa: UP045
    overwrite: Annotated[bool, typer.Option(help="Replace features that are there.")] = False,
) -> None:
    """Compute image features, one vector and a grid per photo. Resumes where it was interrupted."""
    from cs_transformers.data.backbones import load_backbone
    from cs_transformers.data.features import caption_photos, write_features

    model = load_backbone(backbone, weights=weights)
    pictures = caption_photos(folder, photos, size=model.image_size)
    write_features(folder, model, pictures, overwrite=overwrite)
    print(folder)
