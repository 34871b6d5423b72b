"""Taking in what a class handed in: one clean submission per attempt, whatever the learning platform made of it.

Everything is read as text; nothing of a student's is run or imported. What is mended, what has no effect and what looks
like an attack is kept as sentences. The clean copy on disk bears names of ours alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.markers import HELPERS, find_regions, is_stub, make_stubs, read_source
from cs_transformers.checks.tree import PACKAGE, PACKAGE_NAME, Answers, read_answers

from .archives import FAULTS_OF_THE_MACHINE, Contents
from .deliveries import Delivery, attempts, by_person, deliveries_of, owned
from .model import Person, Submission
from .names import natural
from .notebook_cells import TEXT_LIMIT, Sheet, edits, is_written, read_sheet
from .repairs import mend, to_text
from .roster import Roster, read_roster, slug

_TEXT_FILE = re.compile(r"^(\d{1,2}\.\d{1,2})\.(?:md|txt)(?:\.txt)?$")
_MARKER_HINT = re.compile(rb"#[ \t]*BEGIN[ \t]+(?:ANSWER|SOLUTION)[ \t]+(\d+\.\d+)", re.IGNORECASE)
_HEAVY = 1 << 20


def take_in(
    submissions: Path, work: Path, roster: Path | None = None, graded: Collection[str] | None = None
) -> list[Submission]:
    """Read everything that was handed in.

    Args:
        submissions: A folder or a zip: one folder, archive or set of files per student, as a learning platform packs
            them, or what a single student handed in.
        work: Folder for clean copies; what it holds is replaced.
        roster: A CSV file of the class, or None.
        graded: Exercises that will be graded: only their files are missed where they are not handed in. Default: all.

    Returns:
        Every attempt, in the order of the roster and then of the names, the latest attempt of each person last.
        One that cannot be graded says so in ``problem``.

    Raises:
        ValueError: If there is nothing to take in, or the roster cannot be read.
    """
    class_list = Roster(read_roster(roster) if roster else [])
    submissions = Path(submissions)
    if not submissions.exists():
        raise ValueError(f"take_in: expected a folder or a zip of submissions, got {submissions}, which is not there")
    if work.resolve() in (submissions.resolve(), *submissions.resolve().parents):
        raise ValueError(
            f"take_in: expected submissions elsewhere than in {work}, which is replaced, got {submissions}"
        )
    pristine = course_files()
    wanted = {EXERCISES[id].file for id in (EXERCISES if graded is None else graded)}
    if work.exists():
        shutil.rmtree(work)
    found = [owned(delivery, class_list) for delivery in deliveries_of(submissions)]
    if not found:
        raise ValueError(
            f"take_in: expected submissions in {submissions}, got none; give the folder that holds one folder, zip or "
            "set of files per student"
        )
    taken: list[Submission] = []
    for person, deliveries in by_person(found, class_list):
        home = work / slug(person.id)
        if home.exists():  # ids that differ in case or signs only
            home = work / f"{home.name}-{hashlib.sha256(person.id.encode()).hexdigest()[:8]}"
        for attempt, delivery in enumerate(attempts(deliveries), start=1):
            try:
                taken.append(_submission(person, attempt, delivery, home / str(attempt), pristine, wanted))
            except Exception as error:  # whatever one student hands in, the class is graded
                if isinstance(error, OSError) and error.errno in FAULTS_OF_THE_MACHINE:
                    raise  # a full disk is nobody's fault who is graded
                shutil.rmtree(home / str(attempt), ignore_errors=True)
                taken.append(_broken(person, attempt, delivery.source, error))
        for delivery in deliveries:
            vars(delivery).pop("contents", None)  # what is taken in lies on the disk now
    return taken


def _broken(person: Person, attempt: int, source: str, error: Exception) -> Submission:
    """An attempt that the taking in broke on; why is for the instructor alone."""
    problem, nothing = "it could not be taken in", Answers()
    why = f"{problem}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return Submission(person, attempt, source, digest_of(nothing, {}), nothing, incidents=(why,), problem=problem)


def course_files(package: Path = PACKAGE) -> dict[str, str]:
    """The graded files of the course with stubs, as students get them, by path in the package.

    Args:
        package: Folder of the package.
    """
    files = sorted({one.file for one in EXERCISES.values() if one.file})
    return {file: make_stubs(read_source(package / file), file) for file in files}


def _submission(
    person: Person, attempt: int, delivery: Delivery, folder: Path, pristine: dict[str, str], wanted: set[str]
) -> Submission:
    contents = delivery.contents
    repairs, changes = [*contents.repairs], []
    folder.mkdir(parents=True)
    written = _write_sources(contents, folder, pristine, repairs, changes)
    sheets = _read_sheets(contents, repairs)
    for sheet in sheets:
        changes += _edits_of(sheet)
    texts = _texts(contents, sheets, repairs)
    for question, text in texts.items():
        _write(folder / "answers" / f"{question}.md", text + "\n")
    answers = read_answers(folder / PACKAGE_NAME, written)
    problem = _problem(contents, written, sheets, texts)
    absent = [file for file in pristine if file in wanted and file not in written]
    if written and absent:
        repairs.append(f"not handed in: {', '.join(absent)}; nothing of it is graded")
    return Submission(
        person, attempt, delivery.source, digest_of(answers, texts), answers, texts,
        tuple(dict.fromkeys(repairs)), tuple(dict.fromkeys(changes)), tuple(dict.fromkeys(contents.incidents)),
        problem, _manifest(contents), folder,
    )  # fmt: skip


def _problem(contents: Contents, written: list[str], sheets: list[Sheet], texts: dict[str, str]) -> str:
    if written or texts:
        return ""
    if contents.problems:
        return "; ".join(contents.problems[:3])
    if contents.incidents:
        return "; ".join(contents.incidents[:3])
    if sheets:
        return "only notebooks were handed in; the answers stand in the files of cs_transformers/"
    names = ", ".join(sorted(contents.files)[:5])
    return f"no file of the course was found in it ({names or 'it is empty'})"


def digest_of(answers: Answers, texts: dict[str, str]) -> str:
    """Hash of everything of a submission that is graded.

    Args:
        answers: Its answer regions.
        texts: Its inline answers.
    """
    regions = [
        [file, name, region.indent, region.body]
        for file, found in sorted(answers.regions.items())
        for name, region in sorted(found.items())
    ]
    problems = [[*key, *map(str, problem)] for key, problem in sorted(answers.problems.items())]
    text = json.dumps([regions, problems, sorted(texts.items())])
    return hashlib.sha256(text.encode()).hexdigest()


def _write_sources(
    contents: Contents, folder: Path, pristine: dict[str, str], repairs: list[str], changes: list[str]
) -> list[str]:
    """Write the clean copy of every graded file that was handed in; returns which."""
    written, notes = [], {}
    for file, stubs in pristine.items():
        name = _best(file, contents, repairs)
        if name is None:
            continue
        try:
            text, note = to_text(contents.files[name], name)
            mended = mend(text, stubs, file)
            find_regions(mended.text, file)  # it raises if a marker is still bent
        except ValueError as error:
            repairs.append(f"{file} could not be read: {error}")
            continue
        notes.setdefault(note, []).append(file)
        repairs += mended.repairs
        changes += mended.changes
        written.append(file)
        _write(folder / PACKAGE_NAME / file, mended.text)
    repairs += [f"{', '.join(files)}: {note}" for note, files in notes.items() if note]
    return written


def _best(file: str, contents: Contents, repairs: list[str]) -> str | None:
    """The one file of a delivery that is this file of the course: by its path, its name, or the regions in it."""
    ids = {id for id, one in EXERCISES.items() if one.file == file}
    ranked = []
    for name, data in contents.files.items():
        if name.lower().endswith((".ipynb", ".md", ".json")):
            continue
        base = file.rpartition("/")[2]
        if f"/{name}".endswith(f"/{PACKAGE_NAME}/{file}"):
            rank = 0
        elif f"/{name}".endswith(f"/{file}"):
            rank = 1
        elif _alike(name.rpartition("/")[2], base) and (_markers(data) & ids or not _markers(data)):
            rank = 2
        elif _markers(data) and _markers(data) <= ids:
            rank = 3
        else:
            continue
        ranked.append((rank, -_answered(data, file), name.count("/"), natural(name), name))
    if not ranked:
        return None
    ranked.sort()
    best = ranked[0]
    rivals = [one[-1] for one in ranked[1:] if contents.files[one[-1]] != contents.files[best[-1]]]
    if best[0] == 0 and best[1] == 0 and len(ranked) > 1 and min(one[1] for one in ranked) < 0:
        best = min(ranked, key=lambda one: one[1:])  # an untouched copy of the course beside the real work
        rivals = [one[-1] for one in ranked if one is not best]
    if rivals:
        repairs.append(f"{file}: several files fit ({', '.join([best[-1], *rivals][:4])}); {best[-1]} was taken")
    elif best[-1].rpartition("/")[2] != file.rpartition("/")[2]:
        repairs.append(f"{best[-1]}: taken as {file}")
    return best[-1]


def _alike(name: str, wanted: str) -> bool:
    """Whether a name is the wanted one but for case, copies' numbers, endings and words around it."""
    stem = re.sub(r"(\.py|\.txt|\(\d+\)|\s)+$", "", name.casefold())
    core = wanted.casefold().removesuffix(".py")
    return bool(re.search(rf"(^|[^a-z]){re.escape(core)}($|[^a-z])", stem))


def _markers(data: bytes) -> set[str]:
    return {match.decode() for match in _MARKER_HINT.findall(data[:_HEAVY].replace(b"\0", b""))}


def _answered(data: bytes, file: str) -> int:
    """How many regions of a file hold an answer."""
    try:
        text = to_text(data[:_HEAVY], file)[0]
        return sum(1 for region in find_regions(text) if region.name not in ("", HELPERS) and not is_stub(region.body))
    except ValueError:
        return len(re.findall(r"\breturn\b", data[:_HEAVY].decode("utf-8", "replace"))) if b"\0" not in data else 0


def _read_sheets(contents: Contents, repairs: list[str]) -> list[Sheet]:
    sheets = []
    for name, data in sorted(contents.files.items(), key=lambda item: natural(item[0])):
        looks = name.lower().rstrip(" ()0123456789").endswith(".ipynb")
        if looks or (name.lower().endswith(".json") and b'"cells"' in data[:_HEAVY] and b"cell_type" in data):
            try:
                sheet = read_sheet(name.rpartition("/")[2], data)
            except ValueError as error:
                repairs.append(str(error))
                continue
            repairs += sheet.notes
            sheets.append(sheet)
    return sheets


def _edits_of(sheet: Sheet) -> list[str]:
    paths = sorted((PACKAGE.parent / "notebooks").glob(f"{sheet.number}_*.ipynb")) if sheet.number else []
    if not paths:
        return [] if sheet.number else [f"{sheet.name}: no notebook of the course; passed over"]
    return edits(sheet, read_sheet(paths[0].name, paths[0].read_bytes()).cells)


def _texts(contents: Contents, sheets: list[Sheet], repairs: list[str]) -> dict[str, str]:
    """Inline answers by question: the file that the cell wrote and the cell; where they differ, both for the reader."""
    found: dict[str, str] = {}
    for name in sorted(contents.files, key=natural):
        match = _TEXT_FILE.match(name.rpartition("/")[2])
        if match is None or match[1] not in EXERCISES:
            continue
        try:
            text = to_text(contents.files[name], name)[0].strip()[:TEXT_LIMIT]
        except ValueError as error:
            repairs.append(str(error))
            continue
        if is_written(text) and (match[1] not in found or "answers/" in name):
            found[match[1]] = text
    for sheet in sheets:
        for question, text in sheet.texts.items():
            if question not in EXERCISES:
                repairs.append(f"{sheet.name}: there is no question {question}; passed over")
            elif question not in found or _squeezed(found[question]) in _squeezed(text):
                found[question] = text
            elif _squeezed(text) not in _squeezed(found[question]):
                repairs.append(f"{question}: answers/{question}.md and {sheet.name} differ; graders see both")
                found[question] += f"\n\n*(In {sheet.name} the answer reads:)*\n\n{text}"
    return {question: found[question] for question in sorted(found, key=natural)}


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _manifest(contents: Contents) -> dict:
    for name in sorted(contents.files, key=lambda name: (name.count("/"), name)):
        if name.rpartition("/")[2] == "manifest.json" and len(contents.files[name]) < _HEAVY:
            try:
                found = json.loads(to_text(contents.files[name], name)[0])
            except (ValueError, RecursionError):
                continue
            return found if isinstance(found, dict) and _is_shallow(found) else {}
    return {}


def _is_shallow(value: object, levels: int = 4) -> bool:
    """Whether a value has few levels: what can just be read may be too deep for the journal to be written."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inside)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
