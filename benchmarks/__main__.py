"""Run benchmarks: ``python -m benchmarks [--only NAME ...] [--quick] [--seeds N] [--fresh] [--list]``.

A full run writes results.json and results.md beside this file; a quick one only shows that everything works and prints
what it found, unless ``--output`` names another folder.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import records
from benchmarks.records import HERE, Record, SkippedError
from cs_transformers.plots import use_style

FIRST_SEED = 231
RESULTS = HERE  # a full run writes its results beside the scripts
FRAMEWORK = {"__init__", "__main__", "records"}


def names() -> list[str]:
    """All benchmarks: the modules of this folder that are not the framework."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in FRAMEWORK)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that the command line names.

    Args:
        arguments: Words of the command line, or None for the real one.

    Returns:
        0 if none failed; a goal that was not met is a result, not a failure.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names(), default=names(), help="benchmarks to run")
    parser.add_argument("--quick", action="store_true", help="a small form that takes seconds and writes no results")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds, 3 by default, 1 with --quick")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an interrupted run")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where to write results instead of here")
    parser.add_argument("--list", action="store_true", help="say what there is, run nothing")
    wanted = parser.parse_args(arguments)
    if wanted.list:
        for name in names():
            print(f"{name:20} {(import_module(f'benchmarks.{name}').__doc__ or '').splitlines()[0]}")
        return 0
    count = wanted.seeds if wanted.seeds is not None else 1 if wanted.quick else 3
    if count < 1:
        parser.error(f"--seeds must be at least 1, got {count}")
    output = wanted.output or (None if wanted.quick else RESULTS)
    seeds = list(range(FIRST_SEED, FIRST_SEED + count))
    return 1 if _run_all(wanted.only, wanted.quick, seeds, output, wanted.fresh) else 0


def _run_all(wanted: list[str], quick: bool, seeds: list[int], output: Path | None, fresh: bool) -> list[str]:
    failed, console = [], Console()
    use_style()
    for name in wanted:
        console.print(f"[bold]{name}[/bold]")
        started = time.monotonic()
        try:
            found = _run_one(name, quick, seeds, fresh)
        except SkippedError as reason:
            console.print(f"  skipped: {reason}")
            continue
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        found = [records.complete(row, time.monotonic() - started) for row in found]
        if output is not None:
            records.write_results(output, records.merge(records.read_results(output), name, found))
        console.print(_as_table(found))
    return failed


def _run_one(name: str, quick: bool, seeds: list[int], fresh: bool) -> list[Record]:
    workshop = records.Workshop(name, quick)
    if fresh or quick:
        workshop.clear()
    found = import_module(f"benchmarks.{name}").run(quick=quick, seeds=seeds)
    workshop.clear()
    return found


def _as_table(found: list[Record]) -> Table:
    table = Table("figure", "ours", "spread", "peer", "goal", "met")
    for row in found:
        peer = "" if row.peer is None else f"{row.peer:.4g}"
        met = {True: "yes", False: "no", None: ""}[row.met]
        spread = f"{row.spread[0]:.4g} to {row.spread[1]:.4g}"
        table.add_row(row.name, f"{row.ours:.4g} {row.unit}", spread, peer, row.goal or "", met)
    return table


if __name__ == "__main__":
    sys.exit(main())
