"""Proofs that a student edition holds no solution, offers what the instructor edition offers, and can be solved.

``prove`` reads files alone and takes seconds. ``prove_by_running`` imports everything with a stock machine's packages,
runs every check on the stubs and, with the solutions put back, runs every check of the edition by its own code.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cs_transformers.checks import EXERCISES, NOTEBOOKS, edition, references, refresh, scratch, tree
from cs_transformers.checks.client import Worker
from cs_transformers.checks.markers import HELPERS, find_regions, indented, read_source, splice, stub_line
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.stages import judge, points_of
from cs_transformers.course.cells import inline_answers, text_of

if TYPE_CHECKING:
    from cs_transformers.course.editions import Options

Bodies: TypeAlias = dict[str, list[str]]

TEXTS = (".py", ".md", ".ipynb", ".txt", ".json", ".toml", ".yml", ".cfg")
LONG_LINE = 40
WINDOW = 3
STOCK = ("torch", "torchvision", "numpy", "scipy", "matplotlib", "h5py", "PIL", "IPython", "tqdm", "typer", "rich")
EXTRAS = (  # not on a stock machine: no module of the edition may need one to be imported
    "nbformat", "nbclient", "nbconvert", "nbval", "pytest", "accelerate", "sacrebleu", "pycocoevalcap", "pycocotools",
    "torchmetrics", "tokenizers", "jinja2", "dask", "distributed", "transformers", "efficientnet_lite",
)  # fmt: skip


def prove(fresh: Path, source: Path, options: Options) -> None:
    """Hold the files of a student edition against its source.

    Args:
        fresh: Root of the student edition.
        source: Root of the instructor edition.
        options: What the edition shall be like.

    Raises:
        ValueError: If a source does not parse, a solution or an instructor's file is left, or the public names differ.
    """
    for path in sorted(fresh.rglob("*.py")):
        try:
            ast.parse(read_source(path))
        except SyntaxError as error:
            name = path.relative_to(fresh)
            raise ValueError(
                f"release: expected {name} to parse, got {error.msg} in line {error.lineno}; a region must be the tail "
                "of a function and leave valid code behind"
            ) from None
    kept = [name for name in _files(fresh / tree.PACKAGE_NAME) if options.left_out(name)]
    kept = [name for name in kept if name not in (edition.RELEASE, f"checks/{tree.PRISTINE.name}")]
    kept = [name for name in kept if not (options.self_study and name == "course/solutions.zip")]
    if kept:
        raise ValueError(f"release: expected no instructor's file in it, got {kept[0]}; leave it out")
    found = leaks(fresh, *solutions(source, edition.load(fresh / tree.PACKAGE_NAME)))
    found += [
        f"{name}: {item} (rubric of {one.id})"
        for name, text in _texts(fresh)
        for one in EXERCISES.values()
        for item in one.rubric
        if item in text
    ]
    if found:
        raise ValueError(f"release: expected no solution in it, got {found[0]}; reword the text or the code")
    missing = sorted(public_names(source, options) ^ public_names(fresh, options))
    if missing:
        raise ValueError(
            f"release: expected the public names of both editions to agree, got {missing[0]} in only one; keep public "
            "names out of REFERENCE ONLY regions"
        )


def solutions(source: Path, planned: edition.Edition | None = None) -> tuple[Bodies, Bodies]:
    """The solutions' lines, normalised, by file and region: those that must be gone, and those that are given.

    Args:
        source: Root of the instructor edition.
        planned: What the edition hands out; default: everything is to be written.
    """
    planned, package = planned or edition.Edition(), source / tree.PACKAGE_NAME
    hidden: Bodies = {}
    given: Bodies = {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(("checks/mistakes/", "grading/")):
            continue
        for number, region in enumerate(find_regions(read_source(path), name)):
            if region.name != HELPERS:
                wanted = given if region.exercise in planned.solved else hidden
                wanted[f"{name}: {region.name or f'reference {number}'}"] = normalised(region.body)
    for path in sorted((source / "notebooks").glob("*.ipynb")):
        for question, text in inline_answers(path.read_bytes()).items():
            hidden[f"{path.name}: %%answer {question}"] = normalised(text)
    return hidden, given


def leaks(fresh: Path, bodies: Bodies, given: Bodies | None = None) -> list[str]:
    """Where an edition still holds three consecutive lines of a solution, or one long line.

    What a given solution holds as well is no secret.

    Args:
        fresh: Root of the student edition.
        bodies: Lines that must be gone, by file and region.
        given: Lines of solutions that the edition gives.
    """
    public = {tuple(one) for body in (given or {}).values() for one in [*_windows(body), *([line] for line in body)]}
    secret: dict[tuple[str, ...], str] = {}
    for label, body in bodies.items():
        lines = [(line,) for line in body if len(line) >= LONG_LINE]
        secret |= {one: label for one in [*_windows(body), *lines] if one not in public}
    found = []
    for name, text in _texts(fresh):
        lines = normalised(text)
        for one in [*_windows(lines), *((line,) for line in lines)]:
            if one in secret:
                found.append(f"{name}: {' / '.join(one)} ({secret[one]})")
    return found


def _windows(lines: list[str]) -> list[tuple[str, ...]]:
    return [tuple(lines[start : start + WINDOW]) for start in range(len(lines) - WINDOW + 1)]


def _texts(root: Path) -> list[tuple[str, str]]:
    """Every text of an edition with its path, those in its zips included; the model answers of self-study are not."""
    found = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = path.relative_to(root).as_posix()
        if path.suffix == ".ipynb":
            found += [(name, text_of(cell)) for cell in json.loads(read_source(path))["cells"]]
        elif path.suffix in TEXTS:
            found.append((name, read_source(path)))
        elif path.suffix == ".zip" and path.name != "solutions.zip":
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
                found += [(f"{name}/{one}", archive.read(one).decode("utf-8", "replace")) for one in archive.namelist()]
    return found


def normalised(text: str) -> list[str]:
    """The lines of a text that say something, without comments and without blanks that mean nothing.

    Args:
        text: A source or another text.
    """
    lines = (re.sub(r"\s+", " ", line.partition("#")[0]).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def public_names(root: Path, options: Options) -> set[str]:
    """Every public function, class and method that students get, with its arguments.

    Args:
        root: Root of an edition.
        options: What the student edition is like.
    """
    package, found = root / tree.PACKAGE_NAME, set()
    for name in _files(package):
        if name.endswith(".py") and not options.left_out(name):
            found |= {f"{name}: {public}" for public in _names(ast.parse(read_source(package / name)).body, "")}
    return found


def _files(package: Path) -> list[str]:
    paths = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path.relative_to(package).as_posix() for path in paths)


def _names(body: list[ast.stmt], prefix: str) -> set[str]:
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            found.add(f"{prefix}{node.name}({ast.unparse(node.args)})")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found |= {prefix + node.name, *_names(node.body, f"{prefix}{node.name}.")}
    return found


def prove_by_running(fresh: Path, source: Path, progress: Callable[[str], None] | None = None) -> None:
    """Import a student edition, and run its checks on the stubs and on the solutions.

    Args:
        fresh: Root of the student edition.
        source: Root of the instructor edition.
        progress: Called with the name of each step as it begins.

    Raises:
        ValueError: If something does not import on a stock machine, a region belongs to no exercise, a check gives
            points to a stub, or a solution put back does not pass.
    """
    say = progress or (lambda _: None)
    planned = edition.load(fresh / tree.PACKAGE_NAME)
    prove_regions(fresh, planned)
    say("imports on a stock machine")
    prove_imports(fresh)
    solved = refresh.reference_answers(source / tree.PACKAGE_NAME)
    worker = Worker()
    try:
        for id in planned.open:
            if EXERCISES[id].parts:
                say(f"{id} is red on the stub")
                prove_red(id, fresh, solved, worker)
    finally:
        worker.close()
    prove_green(fresh, planned, solved, say)


def prove_regions(fresh: Path, planned: edition.Edition) -> None:
    """Hold the regions and the notebooks of an edition against the registry.

    Args:
        fresh: Root of the student edition.
        planned: What it hands out.

    Raises:
        ValueError: If an exercise to write has no region, or a region no exercise, or a notebook is missing.
    """
    for number in planned.notebooks:
        name = f"notebooks/{NOTEBOOKS[number].name}.ipynb"
        if not (fresh / name).is_file():
            raise ValueError(f"release: expected {name}, got none; write it, or leave {number} out of --notebooks")
    regions = {region.exercise for path in fresh.rglob("*.py") for region in find_regions(read_source(path), path.name)}
    written = {id for id in planned.open if EXERCISES[id].file}
    for id in sorted(regions - {HELPERS} ^ written):
        raise ValueError(
            f"release: expected one region for each exercise to write, got {id} only "
            f"{'in the registry' if id in written else 'in a source file'}; add its row or its region"
        )


def prove_imports(fresh: Path) -> None:
    """Import every module of an edition where nothing but a stock machine's packages is installed.

    Args:
        fresh: Root of the student edition.

    Raises:
        ValueError: If one does not import.
    """
    paths = [path for path in sorted((fresh / tree.PACKAGE_NAME).rglob("*.py")) if path.stem != "__main__"]
    modules = [".".join(path.relative_to(fresh).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    packages = sorted({name.rpartition(".")[0] for name in modules} - {""})
    code = f"""
import importlib, sys
import {", ".join(STOCK)}
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}: raise ImportError("not on a stock machine: " + name)
        # An editable installation would bring a missing module from the instructor edition.
        if name.startswith("cs_transformers.") and name not in {modules!r} + {packages!r}:
            raise ImportError("not in the edition: " + name)
sys.meta_path.insert(0, Wall())
for name in [name for name in sys.modules if name.partition(".")[0] in {EXTRAS!r}]: del sys.modules[name]
sys.path.insert(0, {str(fresh)!r})
for name in {modules!r}: importlib.import_module(name)
import cs_transformers
if not cs_transformers.__file__.startswith({str(fresh)!r}): raise ImportError(cs_transformers.__file__)
"""
    ran = subprocess.run(_python("-c", code), cwd=fresh, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        last = ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit status {ran.returncode}"
        raise ValueError(f"release: expected every module to import, got {last}; import it where it is used")


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-B", *arguments]  # -B: no compiled file may stay in the edition


def prove_red(id: str, fresh: Path, solved: tree.Answers, worker: Worker) -> None:
    """Run a check on one stub among solutions: it must meet the stub and give nothing.

    Args:
        id: The exercise.
        fresh: Root of the student edition.
        solved: The solutions.
        worker: Where it runs.

    Raises:
        ValueError: If the check never comes to the stub, or gives points.
    """
    one, package = EXERCISES[id], fresh / tree.PACKAGE_NAME
    own = {
        name: replace(region, body=indented(stub_line(name) + "\n", region.indent))
        for name, region in solved.regions[one.file].items()
        if region.exercise == id
    }
    answers = tree.Answers({**solved.regions, one.file: {**solved.regions[one.file], **own}})
    runner = Runner(package=package, worker=worker, sources=tree.pristine_sources(package))
    given = {file: dict(regions) for file, regions in answers.regions.items()}
    reference = references.load(id, package / "checks" / "references")
    answer, _ = runner.answer(one, tree.Answers(given), reference.seed)
    points = points_of(one.parts, judge(one.parts, reference.expected, answer))
    stubs = [error for error in answer.errors if "NotImplementedError" in error["bases"] and id in error["message"]]
    if points or not stubs:
        got = f"{points} points" if points else f"no word of the stub ({answer.state})"
        raise ValueError(
            f"release: expected the check of {id} to fail on the stub, got {got}; a check must call what it judges"
        )


CHECK_ALL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from cs_transformers import checks
def tell(verdict): print(json.dumps([verdict.id, verdict.state, verdict.points, verdict.out_of]), flush=True)
checks.run_all(progress=tell)
"""


def prove_green(fresh: Path, planned: edition.Edition, solved: tree.Answers, say: Callable[[str], None]) -> None:
    """Put the solutions into a copy of an edition and let its own code check them.

    Args:
        fresh: Root of the student edition.
        planned: What it hands out.
        solved: The solutions.
        say: Called with the name of each step.

    Raises:
        ValueError: If a solution does not pass with all points.
    """
    with scratch.folder("proof") as folder:
        copy = Path(folder).resolve() / "edition"
        shutil.copytree(fresh, copy)
        put_back(copy / tree.PACKAGE_NAME, solved)
        environment = {key: value for key, value in os.environ.items() if key != "CST_VERDICTS"}
        command = _python("-c", CHECK_ALL, str(copy))
        with subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, text=True, env=environment) as process:
            passed = {}
            for line in process.stdout or ():
                id, state, points, out_of = json.loads(line)
                say(f"{id} is green with the solution")
                passed[id] = state == "awaiting review" or (state == "passed" and points == out_of)
                if EXERCISES[id].parts and not passed[id]:
                    process.kill()
                    raise ValueError(
                        f"release: expected {id} to pass with its solution put back, got {state} ({points} of "
                        f"{out_of}); `cst check {id}` in this edition says why"
                    )
    missing = [id for id in planned.open if EXERCISES[id].parts and id not in passed]
    if missing:
        raise ValueError(f"release: expected a verdict on {missing[0]}, got none; run `cst check` in the edition")


def put_back(package: Path, solved: tree.Answers) -> None:
    """Put solutions into the regions of an edition's files.

    Args:
        package: Folder of its package.
        solved: The solutions.
    """
    for file, regions in solved.regions.items():
        if (package / file).is_file():
            text = read_source(package / file)
            places = [region.name for region in find_regions(text, file) if region.kind == "ANSWER"]
            bodies = {name: region.body for name, region in regions.items() if name in places}
            (package / file).write_text(splice(text, bodies, file), encoding="utf-8", newline="\n")
