"""Rules that hold for the whole package, so that no reviewer has to look for them."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pytest brings the same parser
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "cs_transformers"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "mistakes" not in path.parts)
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES]

# Each layer may import those before it; the modules of a layer may import each other.
BASE = {"errors", "files", "numerics", "masks", "cache"}
HIGHER = ["data", "training", "checks", "course", "grading", "cli"]
PLOT_USERS = {"plots", "training", "course", "grading", "cli"}
STOCK = {"torch", "torchvision", "numpy", "scipy", "matplotlib", "h5py", "PIL", "IPython", "tqdm", "typer", "rich"}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def rank(part: str) -> int:
    if part in BASE:
        return 0
    return 2 + HIGHER.index(part) if part in HIGHER else 1


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *filter(None, [node.module])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    names = {part_of(name) for name in imports_of(path) if name.startswith("cs_transformers.")}
    return {name for name in names if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()}


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_a_lower_layer_knows_nothing_of_a_higher_one(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    for other in ours(path) - {part}:
        if other == "plots":
            assert part in PLOT_USERS, f"{part} imports plots"
        elif part == "plots":
            assert rank(other) <= 1, f"plots imports {other}"
        else:
            assert rank(other) <= rank(part), f"{part} imports {other}"
    if part == "training" and not path.stem.startswith(("recipes", "vit_cifar")):
        assert "data" not in ours(path), "only the recipes import data"


def functions() -> list[tuple[str, Path, ast.FunctionDef]]:
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((f"{path.relative_to(PACKAGE)}:{node.name}", path, node))
    return found


def code_lines(text: str) -> int:
    """Count the lines that are neither blank, nor a comment, nor part of a docstring."""
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_a_file_has_under_300_lines_of_code(path: Path) -> None:
    assert code_lines(path.read_text(encoding="utf-8")) < 300


def test_a_function_has_under_40_lines_of_code_and_a_forward_under_25() -> None:
    too_long = []
    for name, path, node in functions():
        lines = path.read_text(encoding="utf-8").splitlines()[node.lineno - 1 : node.end_lineno]
        length = code_lines(textwrap.dedent("\n".join(lines)))
        if length >= (25 if node.name == "forward" else 40):
            too_long.append((name, length))
    assert not too_long


def public_callables() -> list[tuple[str, object]]:
    found = []
    for name in MODULES:
        if name.startswith("cs_transformers.cli."):
            continue  # its arguments are described where typer reads them
        module = import_module(name)
        for key, value in vars(module).items():
            if key.startswith("_") or getattr(value, "__module__", None) != name:
                continue
            if inspect.isfunction(value):
                found.append((f"{name}.{key}", value))
            elif inspect.isclass(value):
                found.append((f"{name}.{key}", value))
                found += [
                    (f"{name}.{key}.{attribute}", method)
                    for attribute, method in vars(value).items()
                    if inspect.isfunction(method) and not attribute.startswith("_")
                ]
    return found


def documented_arguments(text: str) -> list[str]:
    block = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", inspect.cleandoc(text) + "\n", re.MULTILINE)
    return re.findall(r"^    \*{0,2}(\w+):", block.group(1), re.MULTILINE) if block else []


def test_every_public_docstring_names_the_arguments_of_the_signature() -> None:
    wrong = []
    for name, value in public_callables():
        text = inspect.getdoc(value) if inspect.isclass(value) else value.__doc__
        if not text:
            wrong.append(f"{name}: no docstring")
            continue
        target = value.__init__ if inspect.isclass(value) else value
        if inspect.isclass(value) and "__init__" not in vars(value):
            continue  # dataclasses and exceptions say their fields in their own words
        expected = [p for p in inspect.signature(target).parameters if p != "self"]
        got = documented_arguments(text)
        if got != expected:
            wrong.append(f"{name}: signature {expected}, docstring {got}")
    assert not wrong, "\n".join(wrong)


def test_no_star_import_and_no_utils_module() -> None:
    assert not [path for path in SOURCES if re.search(r"^from .* import \*", path.read_text("utf-8"), re.MULTILINE)]
    assert not [path for path in SOURCES if path.stem in ("utils", "util", "helpers", "misc")]


def test_asserts_stay_out_of_the_package() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert not found


def test_every_module_imports_without_a_warning() -> None:
    code = "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in MODULES)
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


def test_the_package_imports_with_what_a_stock_colab_machine_has() -> None:
    """Everything beyond the base dependencies is imported where it is used."""
    direct = {line.split(">")[0].strip(' "').replace("_", "-") for line in optional_requirements()}
    blocked = sorted({name.replace("-", "_") for name in direct} | {"nbformat", "nbclient", "nbconvert", "accelerate"})
    code = "\n".join(
        [
            "import sys, importlib",
            "import torch, torchvision, numpy, scipy, matplotlib, h5py, PIL, IPython, tqdm, typer, rich",
            f"blocked = {blocked!r}",
            "class Wall:",
            "    def find_spec(self, name, path=None, target=None):",
            "        if name.split('.')[0] in blocked: raise ImportError('not on a stock machine: ' + name)",
            "sys.meta_path.insert(0, Wall())",
            "for name in list(sys.modules):",
            "    if name.split('.')[0] in blocked: del sys.modules[name]",
            *[f"importlib.import_module({name!r})" for name in MODULES],
        ]
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def optional_requirements() -> list[str]:
    return [line for group in project()["optional-dependencies"].values() for line in group if "[" not in line]


def test_each_dependency_is_a_lower_bound_with_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for line in project()["dependencies"] + optional_requirements():
        assert re.fullmatch(r"[\w-]+>=[\d.]+", line), f"{line}: a lower bound and nothing else"
        assert re.search(rf'"{re.escape(line)}",\s+# \w', text), f"{line}: no reason beside it"
    assert project()["requires-python"] == ">=3.10"


def test_the_conda_environment_has_the_same_ranges() -> None:
    conda = (ROOT / "environment.yml").read_text(encoding="utf-8").replace("pytorch>=", "torch>=")
    for line in project()["dependencies"]:
        assert f"- {line}\n" in conda, f"environment.yml lacks {line}"


def tracked_texts() -> list[tuple[str, str]]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("no git checkout here")
    texts = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".ipynb", ".toml", ".yml", ".json", ".cfg", "") and path.is_file():
            texts.append((name, path.read_text(encoding="utf-8", errors="replace")))
    return texts


def test_the_project_holds_no_path_of_a_machine() -> None:
    pattern = re.compile(r"(/work/|/root/|/home/[a-z]|\.\./shared|/tmp/(ipykernel|pytest|bash))")
    allowed = {".ci/run", "tests/test_house.py"}
    assert not [name for name, text in tracked_texts() if name not in allowed and pattern.search(text)]


def test_cleaning_up_leaves_answers_and_trained_weights_alone() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nclean:")[1].splitlines()[1]
    removed = set(recipe.split())
    assert {"rm", "run", "datasets/cache"} <= removed
    assert not removed & {"work", "answers", "runs", "work/", "answers/", "runs/"}


def test_markers_are_declared() -> None:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]["markers"]
    assert {line.split(":")[0] for line in markers} == {"slow", "learning", "gpu"}
