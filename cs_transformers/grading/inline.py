"""Review pages for inline answers: one per question and grader, anonymous, shuffled, working without a network."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cs_transformers.files import replace_file

from .marks import FORMAT, answer_token
from .model import Classroom, Mark, Person
from .pages import markup, render, script_hash
from .reading import model_answer, oddities, question, to_html
from .scores import known
from .texts import inert, is_blank

INDEX, SCRIPT = "index.html", "review.js"
LONGEST_NAME = 200
NAME = "[name]"  # in place of what would tell a grader who wrote an answer


@dataclass(frozen=True)
class Written:
    """One answer to review.

    Args:
        token: Its name, which tells nothing of its author.
        text: What was written, without its author's name.
        flags: What a grader should know before reading.
    """

    token: str
    text: str
    flags: tuple[str, ...] = ()


def write(
    classroom: Classroom,
    folder: Path,
    graders: int = 1,
    *,
    shared: int = 0,
    again: bool = False,
    disputes: dict[str, list[Mark]] | None = None,
) -> list[Path]:
    """Write review pages for every question that waits for one.

    Args:
        classroom: The class.
        folder: Where the pages go.
        graders: Among how many people each question is split.
        shared: How many answers of each question every grader gets, to see whether they mark alike.
        again: Whether answers that have a mark are reviewed again.
        disputes: Answers that graders disagree on, by token: only these are reviewed, and the new marks decide.

    Returns:
        The pages, then the index.

    Raises:
        ValueError: If there is no grader, a negative number of shared answers, or the folder is a file.
    """
    if graders < 1 or shared < 0:
        raise ValueError(
            f"inline: expected at least one grader and no negative number of shared answers, got {graders} and {shared}"
        )
    check_folder(folder)
    settles, entries, files = disputes is not None, [], []
    graders, shared = (1, 0) if settles else (graders, shared)
    for exercise in (id for id in classroom.exercises if known(id).rubric):
        answers = gather(classroom, exercise, again or settles)
        if settles:
            answers = [one for one in answers if one.token in disputes]
        blank = sum(is_blank(text) for text in _texts(classroom, exercise).values())
        for part, mine in enumerate(split(answers, graders, shared), start=1):
            if not mine:
                continue
            name = f"{exercise}_settle.html" if settles else f"{exercise}_grader{part}.html"
            values = {"part": part, "graders": graders, "blank": blank, "settles": settles}
            files.append(replace_file(folder / name, _page(exercise, mine, disputes or {}, values)))
            entries.append(
                {"exercise": exercise, "symbol": known(exercise).symbol, "part": part, "count": len(mine), "file": name}
            )
    return [*files, replace_file(folder / INDEX, render("index.html.j2", pages=entries))]


def check_folder(folder: Path) -> None:
    """Refuse a place for pages that is a file.

    Args:
        folder: Where they shall go.

    Raises:
        ValueError: If it is one.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"inline: expected a folder for the pages, got {folder}, a file; name a folder")


def gather(classroom: Classroom, exercise: str, again: bool = False) -> list[Written]:
    """The answers to one question that somebody has to read, in an order that tells nothing.

    Args:
        classroom: The class.
        exercise: The question.
        again: Whether those that have a mark are taken too.
    """
    texts = {id: text for id, text in _texts(classroom, exercise).items() if not is_blank(text)}
    often = Counter(_bare(text) for text in texts.values())
    found = []
    for id, text in texts.items():
        student = classroom.students[id]
        if exercise in student.marks and not again:
            continue
        flags = oddities(exercise, text, often[_bare(text)] - 1)
        found.append(Written(answer_token(classroom, id, exercise), nameless(text, student.person), tuple(flags)))
    return sorted(found, key=lambda one: one.token)


def _texts(classroom: Classroom, exercise: str) -> dict[str, str]:
    """What everybody who handed in wrote, by id."""
    graded = {id: one.submission for id, one in classroom.students.items() if one.submission}
    return {id: inert(one.texts.get(exercise, "")) for id, one in graded.items() if not one.problem}


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def nameless(text: str, person: Person) -> str:
    """A text without its author's name and id.

    Args:
        text: An answer.
        person: Who wrote it.

    Example:
        >>> nameless("by Ada Lovelace (a123456)", Person("a123456", "Ada Lovelace"))
        'by [name] ([name])'
    """
    # A single short name may be a word of the answer: "max" pooling stays.
    names = [name for name in (person.name, person.id) if 5 <= len(name) <= LONGEST_NAME]
    pattern = "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", NAME, text, flags=re.IGNORECASE) if names else text


def split(answers: list[Written], graders: int, shared: int = 0) -> list[list[Written]]:
    """Answers for each grader: some for everybody, the rest dealt out.

    Args:
        answers: All answers.
        graders: Number of graders.
        shared: How many everybody gets.
    """
    common, rest = answers[:shared], answers[shared:]
    return [[*common, *rest[part::graders]] for part in range(graders)]


def _page(exercise: str, answers: list[Written], disputes: dict[str, list[Mark]], values: dict[str, Any]) -> str:
    rubric = known(exercise).rubric
    most = sum(rubric.values())
    id = hashlib.sha256("\0".join([exercise, *(one.token for one in answers)]).encode()).hexdigest()[:16]
    data = {"format": FORMAT, "exercise": exercise, "id": id, "most": most, "settles": values["settles"]}
    return render(
        "review.html.j2",
        **values,
        exercise=exercise,
        symbol=known(exercise).symbol,
        rubric=list(rubric.items()),
        most=most,
        question=markup(to_html(question(exercise))),
        model=markup(to_html(model_answer(exercise))),
        answers=[
            {"token": one.token, "flags": one.flags, "html": markup(to_html(one.text)),
             "given": disputes.get(one.token, [])}
            for one in answers
        ],
        script_hash=markup(script_hash(SCRIPT)),
        data=markup(json.dumps(data).replace("<", "\\u003c")),
    )  # fmt: skip
