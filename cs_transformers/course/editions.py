"""Student editions: the course with stubs in place of solutions, as a folder; made from the instructor edition alone.

``write_edition`` writes one and holds it against its source (``proofs``) before it hands the folder over.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cs_transformers.checks import EXERCISES, NOTEBOOKS, edition, references, tree
from cs_transformers.checks.edition import RELEASE, Edition
from cs_transformers.checks.markers import (
    HELPERS,
    find_regions,
    is_stub,
    lift,
    make_stubs,
    read_source,
    remove_reference_only,
)
from cs_transformers.checks.runner import EMPTY_ANSWER
from cs_transformers.course import addresses, classroom
from cs_transformers.course.archives import read_folder, zip_bytes
from cs_transformers.course.cells import check_markers, stubbed_cells, text_of

FILES = {  # in the instructor edition -> in the student edition
    "docs/student.md": "README.md",
    **{name: name for name in ("LICENSE", "pyproject.toml", "environment.yml", "datasets/README.md")},
}
FOLDER = "notebooks"
POLICY = "AI_POLICY.md"
INSTRUCTORS = (  # files of the package that no student gets
    "grading/",
    "checks/mistakes/",
    "checks/refresh.py",
    "checks/pristine.zip",
    "cli/author.py",
    "cli/editions.py",
    "cli/grading.py",
    "cli/results.py",
    "course/editions.py",
    "course/proofs.py",
    "course/release.py",
    "course/solutions.zip",
    "course/tables.py",
    RELEASE,
)
SELF_STUDY = ("course/solutions.py",)
TABLE = "<!-- notebooks -->"  # where the guide gets its table of notebooks
STAGES_OF_DIAGNOSIS = ("full", "stage")
LATER = ("solved", "stubs")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an edition shall be like.

    Args:
        url: Where the release will lie: a GitHub repository or the address of a zip.
        notebooks: Numbers of the notebooks handed out; empty: all.
        solved: Numbers of notebooks whose exercises are given.
        later: What becomes of exercises outside ``notebooks``: ``solved``, or ``stubs`` where they are handed out
            another time.
        diagnosis: ``full`` names known mistakes; ``stage`` leaves their fingerprints out.
        self_study: Whether `cst solution` is there.
        policy: What the course says about the use of AI.
    """

    url: str = ""
    notebooks: tuple[str, ...] = ()
    solved: tuple[str, ...] = ()
    later: str = "solved"
    diagnosis: str = "full"
    self_study: bool = False
    policy: str = ""

    def left_out(self, name: str) -> bool:
        """Whether a file of the package is kept from students.

        Args:
            name: Its path in the package.
        """
        return name.startswith(INSTRUCTORS if self.self_study else INSTRUCTORS + SELF_STUDY)


def numbers(text: str) -> tuple[str, ...]:
    """Numbers of notebooks as people write them.

    Args:
        text: Such as ``01-04`` or ``1,3,5-6``.

    Returns:
        The numbers in order, ``("01", "02", "03", "04")``.

    Raises:
        ValueError: If there is no such notebook.
    """
    found: list[str] = []
    for piece in re.split(r"[,\s]+", text.strip()) if text.strip() else []:
        if not re.fullmatch(r"\d{1,2}(-\d{1,2})?", piece):
            raise ValueError(f"release: expected numbers of notebooks such as 01-04 or 1,3, got {text!r}")
        first, _, last = piece.partition("-")
        found += [str(number).zfill(2) for number in range(int(first), int(last or first) + 1)]
    unknown = [number for number in found if number not in NOTEBOOKS]
    if unknown or (text.strip() and not found):
        raise ValueError(
            f"release: expected numbers of notebooks from {', '.join(NOTEBOOKS)}, got {(unknown or [text])[0]!r}"
        )
    return tuple(number for number in NOTEBOOKS if number in found)


def plan(options: Options) -> Edition:
    """Which exercise is written, given or left for later in an edition.

    Args:
        options: What the edition shall be like.

    Raises:
        ValueError: If an option is none of its choices, or nothing is left to write.
    """
    for name, value, choices in (
        ("diagnosis", options.diagnosis, STAGES_OF_DIAGNOSIS),
        ("later", options.later, LATER),
    ):
        if value not in choices:
            raise ValueError(f"release: expected --{name} to be one of {', '.join(choices)}, got {value!r}")
    address = addresses.parse(options.url)
    handed_out = options.notebooks or tuple(NOTEBOOKS)
    ids = [(one.id, one.notebook) for one in EXERCISES.values()]
    to_write = tuple(id for id, notebook in ids if notebook in handed_out and notebook not in options.solved)
    if not to_write:
        raise ValueError(
            "release: expected a notebook with something left to write, got only solved ones; give fewer to --solved"
        )
    outside = tuple(id for id, notebook in ids if notebook not in handed_out and notebook not in options.solved)
    solved = tuple(id for id, notebook in ids if notebook in options.solved)
    if options.later == "solved":
        solved, outside = tuple(id for id, _ in ids if id in solved or id in outside), ()
    return Edition(
        notebooks=handed_out,
        open=to_write,
        solved=solved,
        later=outside,
        diagnosis=options.diagnosis,
        self_study=options.self_study,
        policy=options.policy.strip(),
        url=address.zip,
    )


def write_edition(
    out: Path | str,
    options: Options | None = None,
    source: Path | None = None,
    *,
    proof: Callable[[Path, Path, Options], None] | None = None,
) -> Path:
    """Write a student edition.

    Args:
        out: Folder to write: new, empty, or a student edition in which nothing was answered yet.
        options: What the edition shall be like; default: everything to write.
        source: Root of the instructor edition; default: the one this package belongs to.
        proof: What must hold before the folder is handed over, given the edition, the source and the options;
            default: ``proofs.prove``.

    Returns:
        The folder.

    Raises:
        ValueError: If the folder holds something else or somebody's answers, the source is no instructor edition, or a
            proof fails; the folder is then as it was.
    """
    from cs_transformers.course import proofs

    out, options = Path(out), options or Options()
    source = tree.PACKAGE.parent if source is None else Path(source)
    check_target(out, source)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".student-", dir=out.resolve().parent) as folder:
        fresh = Path(folder) / "edition"
        fill(fresh, source, options)
        (proof or proofs.prove)(fresh, source, options)
        if out.exists():
            shutil.rmtree(out)
        os.replace(fresh, out)
    return out


def fill(fresh: Path, source: Path, options: Options) -> Edition:
    """Write the files of an edition into a new folder, without proving anything.

    Args:
        fresh: The folder.
        source: Root of the instructor edition.
        options: What the edition shall be like.

    Returns:
        What the edition hands out.
    """
    planned = plan(options)
    address = addresses.parse(options.url)
    _write_package(source / tree.PACKAGE_NAME, fresh / tree.PACKAGE_NAME, planned, options)
    for path in sorted((source / FOLDER).glob("*.ipynb")):
        if path.stem[:2] in planned.notebooks:
            text = released_notebook(read_source(path), path.name, planned, address)
            _write(fresh / FOLDER / path.name, text)
    for name, target in FILES.items():
        if (source / name).is_file():
            text = read_source(source / name)
            _write(fresh / target, _with_table(text, fresh, planned, address) if target == "README.md" else text)
    if planned.policy:
        _write(fresh / POLICY, planned.policy + "\n")
    files = {name: hashlib.sha256(data).hexdigest() for name, data in read_folder(fresh).items()}
    digest = hashlib.sha256(edition.encode(replace(planned, files=files)).encode()).hexdigest()
    planned = replace(planned, id=digest[:12], files=files)
    _write(fresh / tree.PACKAGE_NAME / RELEASE, edition.encode(planned))
    return planned


def released_notebook(
    text: str, name: str, planned: Edition | None = None, address: addresses.Address | None = None
) -> str:
    """A notebook without outputs, counts and inline answers, which knows where the release lies.

    Args:
        text: The notebook's JSON.
        name: Its file name.
        planned: What the edition hands out; default: everything.
        address: Where the release lies; default: nowhere.

    Raises:
        MarkerError: If a cell breaks the grammar of markers; the message names the file, the cell and the line.
    """
    planned, address = planned or Edition(), address or addresses.Address()
    notebook = json.loads(text)
    check_markers(notebook, name)
    stubbed_cells(notebook, name, keep=planned.solved, later=planned.later)
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["outputs"], cell["execution_count"] = [], None
        source = text_of(cell)
        if source.startswith("%%answer"):
            source = f"{source.partition(chr(10))[0]}\n{EMPTY_ANSWER}"
        if address.zip:
            source = source.replace('RELEASE_URL, FOLDER = ""', f'RELEASE_URL, FOLDER = "{address.zip}"')
        cell["source"] = source.splitlines(keepends=True)
    badge = address.badge(name)
    if badge and notebook["cells"][0]["cell_type"] == "markdown":
        title, _, rest = text_of(notebook["cells"][0]).partition("\n")
        notebook["cells"][0]["source"] = f"{title}\n\n{badge}\n{rest}".splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _with_table(text: str, fresh: Path, planned: Edition, address: addresses.Address) -> str:
    """The guide with a table of the notebooks of this edition, each with its points and its badge."""
    rows = ["| notebook | to write | points | |", "| --- | --- | --- | --- |"]
    for number in planned.notebooks:
        name = f"{NOTEBOOKS[number].name}.ipynb"
        own = [EXERCISES[id] for id in planned.open if EXERCISES[id].notebook == number]
        if (fresh / FOLDER / name).is_file():
            written = f"{own[0].id} to {own[-1].id}" if own else "nothing, it is given"
            points = sum(one.points for one in own)
            rows.append(f"| [{name}]({FOLDER}/{name}) | {written} | {points} | {address.badge(name)} |")
    if planned.policy:
        rows += ["", f"**What this course says about the use of AI** stands in [{POLICY}]({POLICY})."]
    return text.replace(TABLE, "\n".join(rows))


def _write_package(package: Path, target: Path, planned: Edition, options: Options) -> None:
    pristine: dict[str, bytes] = {}
    owners: dict[str, str] = {}
    for path in sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(package).as_posix()
        if options.left_out(name) or _belongs_to_another(name, planned):
            continue
        if path.suffix != ".py":
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
            continue
        text = read_source(path)
        _refuse_stubs(name, text, owners)
        if name.startswith("checks/exercises_"):
            text = without_rubrics(text)
        text = make_stubs(remove_reference_only(text, name), name, keep=planned.solved, later=planned.later)
        _write(target / name, text)
        if tree.is_needed(name):
            pristine[name] = text.encode()
    (target / "checks").mkdir(parents=True, exist_ok=True)
    (target / "checks" / tree.PRISTINE.name).write_bytes(zip_bytes(pristine))
    if planned.diagnosis == "stage":
        for path in sorted((target / "checks" / "references").glob("*.npz")):
            stored = references.load(path.stem.replace("_", "."), path.parent)
            references.save(path.stem.replace("_", "."), replace(stored, fingerprints=[]), path.parent)
    if options.self_study:
        from cs_transformers.course import solutions

        written = solutions.gather(package, planned.open)
        (target / "course" / "solutions.zip").write_bytes(zip_bytes(written))


def without_rubrics(text: str) -> str:
    """Rows of exercises whose rubrics keep their points alone: the items say what a good answer names.

    Args:
        text: Source with rows ``Exercise(..., rubric={"what counts": 2})``.

    Example:
        >>> without_rubrics('Exercise("6.2", rubric={"locality": 2, "two techniques": 1})')
        'Exercise("6.2", rubric={"item 1": 2, "item 2": 1})'
    """
    keys = [
        (key, number)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.keyword) and node.arg == "rubric" and isinstance(node.value, ast.Dict)
        for number, key in enumerate(node.value.keys, start=1)
    ]
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # ast counts bytes
    for key, number in sorted(keys, key=lambda one: (-one[0].lineno, -one[0].col_offset)):
        before, after = lines[key.lineno - 1][: key.col_offset], lines[key.end_lineno - 1][key.end_col_offset :]
        lines[key.lineno - 1 : key.end_lineno] = [before + f'"item {number}"'.encode() + after]
    return b"".join(lines).decode()


def _belongs_to_another(name: str, planned: Edition) -> bool:
    """Whether a file serves only exercises that are not written in an edition: its reference or hints."""
    path = Path(name)
    if name.startswith("checks/references/") and path.suffix == ".npz":
        return path.stem.replace("_", ".") not in planned.open
    if name.startswith("checks/hints/"):
        return not any(EXERCISES[id].notebook == path.stem[:2] for id in planned.open)
    return False


def _refuse_stubs(name: str, text: str, owners: dict[str, str]) -> None:
    for region in lift(text, name).values():
        if region.kind == "ANSWER" or (region.name != HELPERS and is_stub(region.body)):
            raise ValueError(
                f"release: expected the instructor edition, got no solution of {region.name} in {name}; write the "
                "student edition from the repository with the solutions"
            )
        if region.name != HELPERS and owners.setdefault(region.name, name) != name:
            raise ValueError(
                f"{name}, line {region.first}: SOLUTION {region.name} is in {owners[region.name]} as well; keep one"
            )


def check_target(out: Path, source: Path) -> None:
    """Refuse a folder that holds something else, somebody's answers, or the source itself.

    Args:
        out: Folder to write.
        source: Root of the instructor edition.

    Raises:
        ValueError: If it does.
    """
    if (source / tree.PACKAGE_NAME).resolve() in (out.resolve(), *out.resolve().parents):
        raise ValueError(f"release: expected a folder outside the package, got {out}; choose another folder")
    here = Path.cwd()
    if out.resolve() in (here, *here.parents):  # the folder is replaced as a whole
        raise ValueError(f"release: expected a folder that you do not stand in, got {out}; name one, such as release")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    package = out / tree.PACKAGE_NAME
    if not (package / "checks" / tree.PRISTINE.name).is_file():
        raise ValueError(
            f"release: expected a new folder or an earlier student edition, got {out}, which holds something else; "
            "choose another folder"
        )
    if (out / ".git").exists():  # the folder is replaced as a whole, history and all
        raise ValueError(
            f"release: expected a folder that may be replaced, got {out}, a git repository; write the edition to "
            "another folder and copy its files over"
        )
    answered = sorted(path.stem for path in (out / "answers").glob("*.md") if not classroom.is_blank(read_source(path)))
    for path in sorted(package.glob("**/*.py")):
        regions = find_regions(read_source(path), path.name)
        answered += [region.name for region in regions if region.kind == "ANSWER" and not is_stub(region.body)]
    if answered:
        raise ValueError(
            f"release: expected a student edition without answers, got answers to {', '.join(answered)} in {out}; "
            "choose another folder or move this one away"
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
