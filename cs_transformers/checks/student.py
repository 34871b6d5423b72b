"""The student edition: the same course with stubs where the solutions were, and proofs that nothing else is left.

``student_tree`` writes it from the instructor edition. What it proves before it hands the folder over: every source
parses, no solution is left in any text, and both editions offer the same names.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path

from . import tree
from .markers import HELPERS, find_regions, is_stub, lift, make_stubs, read_source, remove_reference_only
from .runner import EMPTY_ANSWER

FILES = {  # in the instructor edition -> in the student edition
    "docs/student.md": "README.md",
    **{name: name for name in ("LICENSE", "pyproject.toml", "environment.yml", "datasets/README.md")},
}
NOTEBOOKS = "notebooks"
LEFT_OUT = ("checks/mistakes/", "checks/pristine.zip")
TEXTS = (".py", ".md", ".ipynb", ".txt", ".json", ".toml", ".yml", ".cfg")
LONG_LINE = 40
WINDOW = 3
_DATE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is written


def student_tree(out: Path | str, source: Path | None = None, *, empty_answer: str = EMPTY_ANSWER) -> Path:
    """Write the student edition.

    Args:
        out: Folder to write: new, empty, or a student edition in which nothing was answered yet.
        source: Root of the instructor edition; default: the one this package belongs to.
        empty_answer: Text of the inline answers that a student replaces.

    Returns:
        The folder.

    Raises:
        ValueError: If the folder holds something else or somebody's answers, the source is no instructor edition, or a
            proof fails; the folder is then as it was.
    """
    out, source = Path(out), tree.PACKAGE.parent if source is None else Path(source)
    _check_target(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".student-", dir=out.resolve().parent) as folder:
        fresh = Path(folder) / "edition"
        _write_package(source / tree.PACKAGE_NAME, fresh / tree.PACKAGE_NAME)
        for notebook in sorted((source / NOTEBOOKS).glob("*.ipynb")):
            _write(fresh / NOTEBOOKS / notebook.name, stripped_notebook(read_source(notebook), empty_answer))
        for name, target in FILES.items():
            if (source / name).is_file():
                _write(fresh / target, read_source(source / name))
        prove(fresh, source)
        if out.exists():
            shutil.rmtree(out)
        os.replace(fresh, out)
    return out


def stripped_notebook(text: str, empty_answer: str = EMPTY_ANSWER) -> str:
    """A notebook without outputs, counts and inline answers.

    Args:
        text: The notebook's JSON.
        empty_answer: What an inline answer becomes.
    """
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            first = "".join(cell["source"]).partition("\n")[0]
            if first.startswith("%%answer"):
                cell["source"] = [f"{first}\n", empty_answer]
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def prove(edition: Path, source: Path) -> None:
    """Hold a student edition against its source.

    Args:
        edition: Root of the student edition.
        source: Root of the instructor edition.

    Raises:
        ValueError: If a source does not parse, a solution is left somewhere, or the public names differ.
    """
    for path in sorted(edition.rglob("*.py")):
        try:
            ast.parse(read_source(path))
        except SyntaxError as error:
            name = path.relative_to(edition)
            raise ValueError(
                f"student edition: expected {name} to parse, got {error.msg} in line {error.lineno}; "
                "a region must be the tail of a function and leave valid code behind"
            ) from None
    found = leaks(edition, solutions(source))
    if found:
        raise ValueError(f"student edition: expected no solution in it, got {found[0]}; reword the text or the code")
    missing = sorted(public_names(source) ^ public_names(edition))
    if missing:
        raise ValueError(
            f"student edition: expected the public names of both editions to agree, got {missing[0]} in "
            "only one; keep public names out of REFERENCE ONLY regions"
        )


def solutions(source: Path) -> dict[str, list[str]]:
    """The solutions' lines, normalised, by file and region.

    Args:
        source: Root of the instructor edition.
    """
    package, found = source / tree.PACKAGE_NAME, {}
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(LEFT_OUT):
            for number, region in enumerate(find_regions(read_source(path), name)):
                if region.name != HELPERS:
                    found[f"{name}: {region.name or f'reference {number}'}"] = normalised(region.body)
    return found


def leaks(edition: Path, bodies: dict[str, list[str]]) -> list[str]:
    """Where an edition still holds three consecutive lines of a solution, or one long line.

    Args:
        edition: Root of the student edition.
        bodies: What ``solutions`` returned.
    """
    found = []
    for path in sorted(path for path in edition.rglob("*") if path.suffix in TEXTS and path.is_file()):
        lines = normalised(_text(path))
        present, windows = set(lines), {tuple(lines[start : start + WINDOW]) for start in range(len(lines))}
        for label, body in bodies.items():
            triples = (tuple(body[start : start + WINDOW]) for start in range(len(body) - WINDOW + 1))
            left = [" / ".join(triple) for triple in triples if triple in windows]
            left += [line for line in body if len(line) >= LONG_LINE and line in present]
            found += [f"{path.relative_to(edition).as_posix()}: {line} ({label})" for line in left]
    return found


def normalised(text: str) -> list[str]:
    """The lines of a text that say something, without comments and without blanks that mean nothing.

    Args:
        text: A source or another text.
    """
    lines = (re.sub(r"\s+", " ", line.partition("#")[0]).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]


def public_names(root: Path) -> set[str]:
    """Every public function, class and method of an edition, with its arguments.

    Args:
        root: Root of an edition.
    """
    package, found = root / tree.PACKAGE_NAME, set()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(LEFT_OUT):
            found |= {f"{name}: {public}" for public in _names(ast.parse(read_source(path)).body, "")}
    return found


def _names(body: list[ast.stmt], prefix: str) -> set[str]:
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            found.add(f"{prefix}{node.name}({ast.unparse(node.args)})")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found |= {prefix + node.name, *_names(node.body, f"{prefix}{node.name}.")}
    return found


def _write_package(package: Path, target: Path) -> None:
    pristine = {}
    for path in sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(package).as_posix()
        if name.startswith(LEFT_OUT):
            continue
        if path.suffix != ".py":
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
            continue
        text = read_source(path)
        _refuse_stubs(name, text)
        text = make_stubs(remove_reference_only(text, name), name)
        _write(target / name, text)
        if tree.is_needed(name):
            pristine[name] = text
    with zipfile.ZipFile(target / "checks" / tree.PRISTINE.name, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in pristine.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), text)


def _refuse_stubs(name: str, text: str) -> None:
    for region in lift(text, name).values():
        if region.kind == "ANSWER" or (region.name != HELPERS and is_stub(region.body)):
            raise ValueError(
                f"student_tree: expected the instructor edition, got no solution of {region.name} in "
                f"{name}; write the student edition from the repository with the solutions"
            )


def _check_target(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    package = out / tree.PACKAGE_NAME
    if not (package / "checks" / tree.PRISTINE.name).is_file():
        raise ValueError(
            f"student_tree: expected a new folder or an earlier student edition, got {out}, which holds "
            "something else; choose another folder"
        )
    answered = sorted(path.stem for path in (out / "answers").glob("*.md"))
    for path in sorted(package.glob("**/*.py")):
        answered += [name for name, region in lift(read_source(path), path.name).items() if not is_stub(region.body)]
    if answered:
        raise ValueError(
            f"student_tree: expected a student edition without answers, got answers to "
            f"{', '.join(answered)} in {out}; choose another folder or move this one away"
        )


def _text(path: Path) -> str:
    if path.suffix != ".ipynb":
        return read_source(path)
    return "\n".join("".join(cell["source"]) for cell in json.loads(read_source(path))["cells"])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
