"""Package trees: what a copy of the course answers, and a clean tree rebuilt from those answers.

Only answer regions travel. Everything else comes from the pristine sources: in the instructor edition the package
itself, in the student edition the copy kept in ``pristine.zip``, so that a change outside the regions changes nothing.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from .markers import (
    HELPERS,
    MarkerError,
    Region,
    body_problem,
    lift,
    read_source,
    remove_reference_only,
    splice,
    stub_line,
)

PACKAGE_NAME = "cs_transformers"
PACKAGE = Path(__file__).resolve().parents[1]
PRISTINE = Path(__file__).with_name("pristine.zip")
LEFT_OUT = ("course/", "cli/", "grading/", "__main__.py", "checks/")
KEPT = "checks/definitions/"


@dataclass(frozen=True)
class Answers:
    """The answer regions of one copy of the course.

    Args:
        regions: Regions by file (``attention.py``) and name.
        problems: For a region or a whole file (name empty) the line and what makes it unusable, by (file, name).
    """

    regions: dict[str, dict[str, Region]] = field(default_factory=dict)
    problems: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def of(self, file: str, exercise: str) -> dict[str, Region]:
        """The regions of one exercise in a file, by name.

        Args:
            file: File of the package.
            exercise: Its id.
        """
        return {name: region for name, region in self.regions.get(file, {}).items() if region.exercise == exercise}


def is_needed(path: str) -> bool:
    """Whether a file of the package belongs into a tree that runs checks.

    Args:
        path: Path in the package.
    """
    return path.startswith(KEPT) or not path.startswith(LEFT_OUT)


def pristine_sources(package: Path = PACKAGE) -> dict[str, str]:
    """Text of every needed source file of the untouched package, REFERENCE ONLY regions removed, by path.

    Args:
        package: Folder of the package.

    Raises:
        ValueError: If the stored copy is damaged.
    """
    stored = package / PRISTINE.relative_to(PACKAGE)
    if stored.exists():
        try:
            with zipfile.ZipFile(stored) as archive:
                return {name: archive.read(name).decode("utf-8") for name in sorted(archive.namelist())}
        except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
            raise ValueError(
                f"checks: expected a readable {stored.name}, got {type(error).__name__}; copy it again "
                "from a fresh copy of the course, your answers stay"
            ) from None
    files = sorted(package.rglob("*.py"))
    paths = {file.relative_to(package).as_posix(): file for file in files}
    return {path: remove_reference_only(read_source(file), path) for path, file in paths.items() if is_needed(path)}


def read_answers(package: Path, files: list[str]) -> Answers:
    """Lift the answer regions of some files of a package; what cannot be used is noted, not raised.

    Args:
        package: Folder of the package.
        files: Files in it.
    """
    answers = Answers()
    for file in files:
        try:
            regions = lift(read_source(package / file), file)
        except MarkerError as error:
            answers.problems[file, ""] = (error.line, error.problem)
            continue
        except (OSError, ValueError) as error:
            answers.problems[file, ""] = (0, str(error))
            continue
        answers.regions[file] = regions
        for name, region in regions.items():
            problem = body_problem(region)
            if problem is not None:
                answers.problems[file, name] = problem
    return answers


def rebuild(
    folder: Path, sources: dict[str, str], answers: Answers, *, without_helpers: frozenset[str] = frozenset()
) -> Path:
    """Write a tree: the pristine sources with every usable answer spliced in.

    Args:
        folder: Empty folder for the tree.
        sources: Pristine sources by path.
        answers: Answers to splice; regions with a problem become stubs.
        without_helpers: Files whose ``helpers`` region is left out.

    Returns:
        ``folder``, which holds the package.
    """
    package = folder / PACKAGE_NAME
    for path, text in sources.items():
        bodies = _bodies(path, text, answers, without_helpers)
        target = package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(splice(text, bodies, path) if bodies else text, encoding="utf-8", newline="\n")
    # The package's own checks/__init__ would import the trusted side; the tree needs a namespace only.
    (package / "checks").mkdir(parents=True, exist_ok=True)
    (package / "checks" / "__init__.py").write_text('"""Check functions only."""\n', encoding="utf-8")
    return folder


def _bodies(path: str, text: str, answers: Answers, without_helpers: frozenset[str]) -> dict[str, str]:
    lifted = answers.regions.get(path)
    if not lifted:
        return {}
    bodies = {}
    for name, place in lift(text, path).items():
        if name not in lifted:
            continue
        if (path, name) in answers.problems or (name == HELPERS and path in without_helpers):
            # Never what the pristine source has there: that may be the solution.
            bodies[name] = place.indent + stub_line(name)
        else:
            bodies[name] = moved(lifted[name], place.indent)
    return bodies


def moved(region: Region, indent: str) -> str:
    """The body of a region as it stands at another depth.

    Args:
        region: A region.
        indent: Blanks before the markers of the place it goes to.
    """
    if region.indent == indent:
        return region.body
    lines = region.body.splitlines(keepends=True)
    return "".join(indent + line.removeprefix(region.indent) if line.strip() else line for line in lines)


def student_line(file: str, line: int, tree: Path, answers: Answers) -> int:
    """The line of the student's own file that a line of the rebuilt tree came from.

    Args:
        file: File of the package.
        line: Line in the rebuilt tree.
        tree: The rebuilt tree.
        answers: The answers it was built from.
    """
    rebuilt = lift(read_source(tree / PACKAGE_NAME / file), file)
    for name, region in rebuilt.items():
        if region.first <= line <= region.last and name in answers.regions.get(file, {}):
            return answers.regions[file][name].first + line - region.first
    return line


def expected_regions(file: str, exercise: str, sources: dict[str, str]) -> set[str]:
    """Names of the regions that an exercise has in the pristine sources.

    Args:
        file: File of the package.
        exercise: Its id.
        sources: Pristine sources by path.
    """
    regions = lift(sources.get(file, ""), file).values()
    return {region.name for region in regions if region.exercise == exercise}


def digest(answers: Answers, wanted: list[tuple[str, str]]) -> str:
    """Hash of some exercises' answers, (file, exercise) each, with the helpers of their files.

    Args:
        answers: Answers of a copy.
        wanted: File and exercise, in pairs.
    """
    parts = []
    for file, exercise in sorted(set(wanted)):
        for name, region in sorted(answers.regions.get(file, {}).items()):
            if region.exercise in (exercise, HELPERS):
                parts.append(f"{file}\0{name}\0{region.indent}\0{region.body}")
        parts.append(f"{file}\0{answers.problems.get((file, ''))}")
    return hashlib.sha256("\1".join(parts).encode()).hexdigest()
