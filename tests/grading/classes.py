"""A generated class: what sixty students know, and what their editors, browsers and learning platforms make of it."""

from __future__ import annotations

import io
import json
import random
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.markers import indented, lift, splice
from cs_transformers.checks.refresh import Mistake, mistakes_of, reference_answers
from cs_transformers.checks.tree import PACKAGE, Answers
from cs_transformers.grading.intake import course_files
from cs_transformers.grading.judging import trains

RIGHT, STUB = "right", "stub"
FIRST = ["Zoë", "Łukasz", "小龍", "Ana-María", "Fionnuala", "Jürgen", "Søren", "Chloé", "Kwame", "Iñigo"]
LAST = ["Müller", "Żak", "李", "Núñez Ortega", "O'Brien", "Groß"]
TEXT = "Several heads look at several places at once; one softmax gives a query a single mean of both."


@dataclass
class Pupil:
    """One student of the class.

    Args:
        id: In the roster.
        name: In the roster.
        knows: By exercise: right, stub, or the mistake made.
        form: How it was handed in.
        texts: Inline answers.
        lost: Exercises whose answer cannot be found any more in what was handed in.
    """

    id: str
    name: str
    knows: dict[str, str | Mistake]
    form: str
    texts: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)


class Author:
    """Writes files as students would.

    Args:
        solved: The solutions.
    """

    def __init__(self, solved: Answers | None = None) -> None:
        self.solved, self.stubs = solved or reference_answers(), course_files()
        self.notebooks = {
            path.name: path.read_bytes() for path in sorted((PACKAGE.parent / "notebooks").glob("*.ipynb"))
        }

    def sources(self, pupil: Pupil) -> dict[str, str]:
        """The graded files of the package with what somebody knows in them."""
        found = {}
        for file, text in self.stubs.items():
            bodies = {}
            for name, place in lift(text, file).items():
                known = pupil.knows.get(place.exercise, STUB)
                if known == STUB or name == "helpers":
                    continue
                body = self.solved.regions[file][name].body
                if isinstance(known, Mistake) and known.region == name:
                    body = indented(known.body, place.indent)
                bodies[name] = body
            found[file] = splice(text, bodies, file)
        return found

    def notebook(self, number: str, pupil: Pupil) -> dict:
        """A notebook of the course with somebody's inline answers."""
        name = next(name for name in self.notebooks if name.startswith(number))
        content = json.loads(self.notebooks[name])
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
                source = "".join(cell["source"])
                if source.startswith("%%answer"):
                    question = source.split()[1]
                    cell["source"] = [f"%%answer {question}\n", pupil.texts.get(question, "")]
        return content


Files = dict[str, bytes]


def _course(author: Author, pupil: Pupil) -> Files:
    """The whole folder of the course as it lies on a student's disk."""
    files = {f"cs_transformers/{file}": text.encode() for file, text in author.sources(pupil).items()}
    files["cs_transformers/masks.py"] = (PACKAGE / "masks.py").read_bytes()
    files["notebooks/06_inline_questions.ipynb"] = json.dumps(author.notebook("06", pupil)).encode()
    files["notebooks/01_attention.ipynb"] = json.dumps(author.notebook("01", pupil)).encode()
    return files | {f"answers/{question}.md": f"{text}\n".encode() for question, text in pupil.texts.items()}


def zipped(files: Files, prefix: str = "") -> bytes:
    """A zip archive of some files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(prefix + name, (2026, 11, 30, 12, 0, 0)), data)
    return buffer.getvalue()


def _write(folder: Path, files: Files) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _sources_only(files: Files) -> Files:
    return {name: data for name, data in files.items() if name.startswith("cs_transformers/")}


def _folder(author: Author, pupil: Pupil, out: Path) -> None:
    _write(out / pupil.id, _course(author, pupil))


def _zip(author: Author, pupil: Pupil, out: Path) -> None:
    manifest = {"course": "0.1.0", "verdicts": dict.fromkeys(EXERCISES, "passed")}  # believed by nobody
    files = {**_course(author, pupil), "manifest.json": json.dumps(manifest).encode()}
    (out / f"{pupil.id}.zip").write_bytes(zipped(files))


def _canvas_late(author: Author, pupil: Pupil, out: Path) -> None:
    first, _, last = pupil.name.partition(" ")
    who = (last + first).lower().replace(" ", "").replace("'", "").replace("-", "")
    (out / f"{who}_LATE_{sum(map(ord, pupil.id))}_9{pupil.id[1:]}_transformers-2.zip").write_bytes(
        zipped(_course(author, pupil), "transformers/")
    )


def _nested(author: Author, pupil: Pupil, out: Path) -> None:
    inner = zipped(_course(author, pupil), "work/")
    outer = zipped({"homework.zip": inner, "readme.txt": b"see the zip"}, "hand-in/")
    _write(out / pupil.name, {"final.zip": outer})


def _mac(author: Author, pupil: Pupil, out: Path) -> None:
    files = _course(author, pupil)
    ghosts = {
        f"__MACOSX/transformers/{name.rpartition('/')[0]}/._{name.rpartition('/')[2]}": b"\0\5\x16\7" for name in files
    }
    named = {f"transformers/{name}": data for name, data in files.items()}
    (out / f"{pupil.id}.zip").write_bytes(zipped({**ghosts, **named, "transformers/.DS_Store": b"\0\0\0\1Bud1"}))


def _recoded(change: Callable[[str], bytes]) -> Callable[[Author, Pupil, Path], None]:
    def write(author: Author, pupil: Pupil, out: Path) -> None:
        files = _course(author, pupil)
        _write(out / pupil.id, {name: change(data.decode()) for name, data in files.items()})

    return write


def _windows_text(text: str) -> bytes:
    """Saved by an editor that knows no UTF-8, with a comment in the author's language."""
    return text.replace("### END ANSWER 1.1\n", "### END ANSWER 1.1\n# geprüft: größer als 0\n").encode(
        "cp1252", "replace"
    )


def _cells(author: Author, pupil: Pupil, out: Path) -> None:
    """A notebook with deleted, doubled, reordered and converted cells."""
    files = _course(author, pupil)
    content = json.loads(files["notebooks/01_attention.ipynb"])
    cells = content["cells"]
    at = {id: at for at, cell in enumerate(cells) for id in CODED if f'\ncheck("{id}")' in "".join(cell["source"])}
    cells.append(dict(cells[at["1.2"]]))
    cells[at["1.3"]], cells[at["1.4"]] = cells[at["1.4"]], cells[at["1.3"]]
    cells[at["1.5"]] = {"cell_type": "markdown", "metadata": {}, "source": cells[at["1.5"]]["source"]}
    del cells[at["1.1"]]
    cells.insert(0, {"cell_type": "code", "metadata": {}, "source": ["1 / 0"], "outputs": [], "execution_count": None})
    files["notebooks/01_attention.ipynb"] = json.dumps(content).encode()
    _write(out / pupil.id, files)


def _lost_markers(author: Author, pupil: Pupil, out: Path) -> None:
    """Marker lines deleted with the text around them: one BEGIN, one END, one pair, one bent."""
    files = _course(author, pupil)
    text = files["cs_transformers/attention.py"].decode()
    text = text.replace("    ### BEGIN ANSWER 1.1\n", "").replace("    ### END ANSWER 1.2\n", "")
    text = text.replace("    ### BEGIN ANSWER 1.4\n", "").replace("    ### END ANSWER 1.4\n", "")
    text = text.replace("### BEGIN ANSWER 1.8", "#begin answer 1.8")
    files["cs_transformers/attention.py"] = text.encode()
    _write(out / pupil.id, files)


def _unicode(author: Author, pupil: Pupil, out: Path) -> None:
    name = unicodedata.normalize("NFD", pupil.name)
    (out / f"{name}.zip").write_bytes(zipped(_course(author, pupil), unicodedata.normalize("NFD", "Übung für alle/")))


def _renamed(author: Author, pupil: Pupil, out: Path) -> None:
    """Downloaded again and again, and renamed."""
    files = _course(author, pupil)
    others = {"attention.py": "attention (2).py", "blocks.py": "My_Blocks.PY", "vit.py": "answers5.txt",
              "positional.py": "positional_FINAL.py"}  # fmt: skip
    renamed = {}
    for name, data in files.items():
        base = name.rpartition("/")[2]
        renamed[others.get(base, base)] = data
    _write(out / pupil.id, renamed)


def _loose(author: Author, pupil: Pupil, out: Path) -> None:
    """Every file handed in by itself: Canvas gives each a number of its own."""
    first, _, last = pupil.name.partition(" ")
    who = (last + first).lower().replace(" ", "").replace("'", "").replace("-", "")
    for number, (name, data) in enumerate(_course(author, pupil).items()):
        if name.endswith((".py", ".ipynb")) and "masks" not in name:
            (out / f"{who}_77{pupil.id[1:]}_{5000 + number}_{name.rpartition('/')[2]}").write_bytes(data)


def _tar(author: Author, pupil: Pupil, out: Path) -> None:
    with tarfile.open(out / f"{pupil.id}.tar.gz", "w:gz") as archive:
        for name, data in _course(author, pupil).items():
            member = tarfile.TarInfo(f"./course/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _doubled(author: Author, pupil: Pupil, out: Path) -> None:
    """A function pasted a second time: a stub of it comes first."""
    files = _course(author, pupil)
    text = files["cs_transformers/attention.py"].decode()
    stubs = author.stubs["attention.py"]
    start, end = stubs.index("def causal_mask"), stubs.index("### END ANSWER 1.4\n") + len("### END ANSWER 1.4\n")
    at = text.index("def causal_mask")
    files["cs_transformers/attention.py"] = (text[:at] + stubs[start:end] + "\n\n" + text[at:]).encode()
    _write(out / pupil.id, files)


def _attempts(author: Author, pupil: Pupil, out: Path) -> None:
    """An empty first attempt, then the one that counts."""
    nothing = Pupil(pupil.id, pupil.name, {}, pupil.form)
    (out / f"{pupil.id} (attempt 1).zip").write_bytes(zipped(_course(author, nothing)))
    (out / f"{pupil.id} (attempt 2).zip").write_bytes(zipped(_course(author, pupil)))


def _moodle(author: Author, pupil: Pupil, out: Path) -> None:
    folder = out / f"{pupil.name}_{4000 + int(pupil.id[1:])}_assignsubmission_file_"
    _write(folder, {"hw.zip": zipped(_course(author, pupil), "hw/hw/")})


def _two_copies(author: Author, pupil: Pupil, out: Path) -> None:
    """The real work beside an untouched copy of the course."""
    nothing = Pupil(pupil.id, pupil.name, {}, pupil.form)
    fresh = {f"download/{name}": data for name, data in _sources_only(_course(author, nothing)).items()}
    _write(out / pupil.id, {**fresh, **{f"mine/{name}": data for name, data in _course(author, pupil).items()}})


def _outside(author: Author, pupil: Pupil, out: Path) -> None:
    """Changes where they have no effect: constructors, imports, the checks themselves."""
    files = _course(author, pupil)
    text = files["cs_transformers/attention.py"].decode()
    files["cs_transformers/attention.py"] = ("import os  # mine\n" + text + "\nTHRESHOLD = 1e9\n").encode()
    files["cs_transformers/checks/stages.py"] = b"def judge(*args):\n    return 'passed'\n"
    _write(out / pupil.id, files)


FORMS: dict[str, Callable[[Author, Pupil, Path], None]] = {
    "folder": _folder, "zip": _zip, "canvas, late": _canvas_late, "nested zips": _nested, "__MACOSX": _mac,
    "BOM": _recoded(lambda text: text.encode("utf-8-sig")),
    "CRLF": _recoded(lambda text: text.replace("\n", "\r\n").encode()),
    "UTF-16": _recoded(lambda text: text.encode("utf-16")),
    "Windows text": _recoded(_windows_text),
    "cells": _cells, "lost markers": _lost_markers, "unicode names": _unicode, "renamed": _renamed,
    "loose files": _loose, "tar": _tar, "doubled": _doubled, "attempts": _attempts, "moodle": _moodle,
    "two copies": _two_copies, "outside": _outside,
}  # fmt: skip
CODED = [id for id, one in EXERCISES.items() if one.parts]
QUICK = [id for id in CODED if not trains(id)]
TEXTS = [id for id, one in EXERCISES.items() if one.rubric]


def pupils(count: int = 60, seed: int = 231, exercises: list[str] = QUICK) -> list[Pupil]:
    """What a class knows: some everything, some up to a point, some with mistakes."""
    draw, found = random.Random(seed), []
    forms = list(FORMS)
    for number in range(count):
        kind = number % 3
        least = min(8, len(exercises))  # what forms damage is answered
        until = len(exercises) if kind == 0 else draw.randrange(least, len(exercises) + 1)
        knows: dict[str, str | Mistake] = {id: RIGHT if at < until else STUB for at, id in enumerate(exercises)}
        if kind == 2:
            for id in draw.sample(exercises[least // 2 :], k=min(4, len(exercises) - least // 2)):
                knows[id] = draw.choice(mistakes_of(id))
        name = f"{FIRST[number % len(FIRST)]} {LAST[(number // len(FIRST)) % len(LAST)]}"
        form = forms[(number * 7) % len(forms)]
        asked = [id for id in TEXTS if id.startswith("6.")] if form == "loose files" else TEXTS
        texts = {id: f"{TEXT} ({number})" for id in asked if draw.random() < 0.5}
        found.append(Pupil(f"s{number:03d}", name, knows, form, texts))
    return found


def write_class(folder: Path, people: list[Pupil], author: Author | None = None) -> Path:
    """Write what everybody hands in, and the roster beside it (with one who is absent)."""
    author = author or Author()
    folder.mkdir(parents=True)
    for pupil in people:
        FORMS[pupil.form](author, pupil, folder)
    roster = folder.parent / f"{folder.name}.csv"
    rows = [f"{pupil.id};{pupil.name};{'AB'[at % 2]}" for at, pupil in enumerate(people)]
    roster.write_text("\n".join(["id;name;section", *rows, "s999;Nobody Here;A", ""]), encoding="utf-8-sig")
    return roster
