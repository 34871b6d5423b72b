"""What a benchmark finds, and the two files that keep it: results.json and the same as a table, results.md."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from cs_transformers.data.paths import cache_dir, data_dir
from cs_transformers.files import replace_file

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "cs_transformers"
LEARNING = ("*.py", "data/*.py", "training/*.py")  # what figures depend on: models, data, training
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
VERSIONS = ("torch", "torchvision", "numpy", "sacrebleu", "pycocoevalcap")


class SkippedError(Exception):
    """A benchmark cannot run here, and why."""


@dataclass(kw_only=True)
class Record:
    """One figure with everything needed to judge and to repeat it.

    Args:
        area: Part of the course, for instance "captioning".
        name: Benchmark and figure, "captions_overfit/loss".
        ours: Mean over the seeds.
        unit: What the figure counts.
        peer: The figure that ours is compared with, or None.
        ratio: ours / peer, or None.
        spread: Least and largest value over the seeds.
        goal: "< 0.05" and the like, or None for a figure that only stands beside another.
        met: Whether every seed reaches the goal, or None.
        seeds: Seeds that were run.
        machine: Model and number of the processors.
        versions: Versions of Python and the packages.
        date: Day of the measurement.
        seconds: How long the last call took; a run that was resumed counts from there.
    """

    area: str
    name: str
    ours: float
    unit: str
    peer: float | None = None
    ratio: float | None = None
    spread: tuple[float, float]
    goal: str | None = None
    met: bool | None = None
    seeds: list[int] = field(default_factory=list)
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float = 0.0


def record(
    area: str,
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    seeds: Sequence[int],
    goal: str | None = None,
    peer: float | None = None,
) -> Record:
    """Make a record of one figure per seed.

    Args:
        area: Part of the course.
        name: Benchmark and figure, joined by a slash.
        values: One value per seed, or the repeats of a timing.
        unit: What the figure counts.
        seeds: Seeds that were run.
        goal: Comparison with a number; every single value must hold it.
        peer: Figure to compare with.

    Returns:
        The record, without machine, date and duration, which the runner adds.
    """
    mean = sum(values) / len(values)
    return Record(
        area=area,
        name=name,
        ours=mean,
        unit=unit,
        peer=peer,
        ratio=mean / peer if peer else None,
        spread=(min(values), max(values)),
        goal=goal,
        met=None if goal is None else all(holds(value, goal) for value in values),
        seeds=list(seeds),
    )


def holds(value: float, goal: str) -> bool:
    """Say whether a value reaches a goal.

    Args:
        value: Figure.
        goal: "<", "<=", ">" or ">=" and a number.

    Returns:
        True if it does.
    """
    match = re.fullmatch(r"(<=|>=|<|>)\s*(-?[\d.]+(?:e-?\d+)?)", goal)
    if match is None:
        raise ValueError(f"record: expected a goal such as '< 0.05', got {goal!r}; write a comparison and a number.")
    return COMPARE[match[1]](value, float(match[2]))


def complete(found: Record, seconds: float) -> Record:
    """Add to a record where, when and with what it was measured.

    Args:
        found: The record.
        seconds: How long this call took.

    Returns:
        The same record.
    """
    found.machine, found.versions = machine(), versions()
    found.date, found.seconds = date.today().isoformat(), float(f"{seconds:.3g}")
    return found


def machine() -> str:
    """Name the processor and the number of its cores; no name of a host or person."""
    model = ""
    if Path("/proc/cpuinfo").is_file():
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = match[1].strip() if match else ""
    return f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str]:
    """Versions of Python and the packages that decide the figures."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_results(folder: Path) -> list[Record]:
    """Read the records of earlier runs.

    Args:
        folder: Where results.json is.

    Returns:
        The records; none where there is no file.
    """
    path = folder / "results.json"
    if not path.is_file():
        return []
    return [Record(**{**row, "spread": tuple(row["spread"])}) for row in json.loads(path.read_text(encoding="utf-8"))]


def merge(old: list[Record], benchmark: str, new: list[Record]) -> list[Record]:
    """Replace the records of one benchmark and leave all others.

    Args:
        old: Records so far.
        benchmark: Name of the benchmark that was run.
        new: What it found.

    Returns:
        All records in the order of their names.
    """
    strange = [found.name for found in new if not found.name.startswith(f"{benchmark}/")]
    if strange:
        raise ValueError(f"merge: expected names that begin with '{benchmark}/', got {strange}; rename the records.")
    kept = [found for found in old if not found.name.startswith(f"{benchmark}/")]
    return sorted([*kept, *new], key=lambda found: found.name)


def write_results(folder: Path, records: list[Record]) -> None:
    """Write results.json and results.md.

    Args:
        folder: Where to.
        records: All records.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = json.dumps([asdict(found) for found in records], indent=1)
    replace_file(folder / "results.json", rows + "\n")
    replace_file(folder / "results.md", table(records, folder))


def table(records: list[Record], folder: Path) -> str:
    """Set the records as a Markdown table.

    Args:
        records: All records.
        folder: Where the pictures lie, one per benchmark, in ``pictures/``.

    Returns:
        The text of results.md.
    """
    lines = [
        "# Results of the benchmarks",
        "",
        "Written by `make bench`; every figure comes from a run on the machine beside it. A goal is met when every",
        "seed reaches it. In brackets: least and largest value over the seeds or repeats.",
        "",
        "| area | benchmark | ours | compared with | ratio | goal | met | seeds | seconds | picture |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for found in records:
        picture = f"pictures/{found.name.split('/')[0]}.png"
        cells = [
            found.area,
            found.name,
            f"{found.ours:.4g} {found.unit} ({found.spread[0]:.4g} to {found.spread[1]:.4g})",
            "" if found.peer is None else f"{found.peer:.4g}",
            "" if found.ratio is None else f"{found.ratio:.3g}",
            (found.goal or "").replace("|", "\\|"),
            {True: "yes", False: "no", None: ""}[found.met],
            ", ".join(map(str, found.seeds)),
            f"{found.seconds:.0f}",
            f"[picture]({picture})" if (folder / picture).is_file() else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    where = sorted({f"{found.machine}; " + _versions_text(found.versions) for found in records})
    lines += ["", "Measured on:", "", *(f"* {text}" for text in where)]
    return "\n".join(lines) + "\n"


def save_picture(name: str, figure: Any) -> None:
    """Save the picture that results.md links for a benchmark.

    Args:
        name: Name of the benchmark.
        figure: A matplotlib figure; it is closed.
    """
    import matplotlib.pyplot as plt

    (HERE / "pictures").mkdir(exist_ok=True)
    figure.savefig(HERE / "pictures" / f"{name}.png", dpi=100, metadata={"Software": None})
    plt.close(figure)


def real_data(*parts: str) -> Path:
    """Find a folder or file of the real data.

    Args:
        parts: Its path below CST_DATA_DIR.

    Returns:
        The path.

    Raises:
        SkippedError: If there is no such data here.
    """
    base = data_dir()
    path = None if base is None else base.joinpath(*parts)
    if path is None or not path.exists():
        raise SkippedError(f"needs {'/'.join(parts)} in the folder that CST_DATA_DIR names")
    return path


class Workshop:
    """A folder for the intermediate results of one benchmark, from which an interrupted run goes on.

    Another torch, a changed script or a changed package gets another folder, so that no figure comes from two versions;
    when the benchmark is through, the runner removes it, so that none is read from an old run.

    Args:
        name: Name of the benchmark, a script in this folder.
        quick: Whether this is its quick form.
    """

    def __init__(self, name: str, quick: bool) -> None:
        key = hashlib.sha256(f"{quick}{torch.__version__}".encode())
        for path in (HERE / f"{name}.py", *(path for parts in LEARNING for path in sorted(PACKAGE.glob(parts)))):
            key.update(path.read_bytes())
        self.folder = cache_dir() / "benchmarks" / f"{name}-{key.hexdigest()[:12]}"

    def once(self, step: str, compute: Callable[[Path], Any]) -> Any:
        """Compute a part, or read what it gave before the interruption.

        Args:
            step: Name of the part.
            compute: Function of a folder for checkpoints that gives values which json can hold.

        Returns:
            The values.
        """
        path = self.folder / f"{step}.json"
        if not path.is_file():
            folder = self.folder / step
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(compute(folder)))
        return json.loads(path.read_text(encoding="utf-8"))

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _versions_text(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())
