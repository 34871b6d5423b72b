"""Graded classes made by hand: one with everything that happens, one with everything that people try."""

from __future__ import annotations

from cs_transformers.checks import EXERCISES
from cs_transformers.checks.tree import Answers
from cs_transformers.grading.model import (
    AWAITING,
    Adjustment,
    Classroom,
    Mark,
    NotebookRun,
    Person,
    Record,
    Student,
    Submission,
)

KEY = "00112233445566778899aabbccddeeff"
GRADED = ["1.1", "1.6", "4.6", "6.1", "6.2", "6.3"]
TEXTS = {
    "6.1": "**Several heads.** One softmax gives one distribution; two heads look at two places. The scale keeps the "
    "variance of $q \\cdot k$ at 1.",
    "6.2": "A CNN knows that neighbours belong together, a ViT must learn it. Augmentation helps, and pretraining.",
    "6.3": "Four times the tokens, and each looks at four times as many.",
}
PICTURE = {
    "expected": [[0.5, -0.25, 1.0, 0.0, 0.75], [0.1, 0.9, -1.2, 0.3, 0.0], [0.0, 0.4, 0.6, -0.8, 1.1]],
    "got": [[0.25, -0.125, 0.5, 0.0, 0.375], [0.05, 0.45, -0.6, None, 0.0], [0.0, 0.2, 0.3, -0.4, 0.55]],
    "label": "values: scores [0, 0]",
    "starts": [0, 0],
}
SCRIPT = "<script>alert('x')</script>"
HOSTILE = [
    SCRIPT,
    "<img src=x onerror=alert(1)>",
    "</title></style></script><svg onload=alert(1)>",
    '=HYPERLINK("http://example.invalid","click")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "-2+3",
    "\u202egnp.exe",
    "line one\r\n=1+1",
    "a\x00b\x1b[31mred",
    "'; DROP TABLE grades; --",
    "{{ 7 * 7 }}{% raw %}",
    "\ud800 half a character",
    "[click](javascript:alert(1)) ![x](http://example.invalid/x.png)",
    "../../../etc/passwd",
    "x" * 3_000_000,
]


def record(student: str, exercise: str, state: str = "passed", points: int | None = None, **fields: object) -> Record:
    row = EXERCISES[exercise]
    out_of, review = sum(row.parts.values()), sum(row.rubric.values())
    if points is None:
        points = out_of if state == "passed" else 0
    return Record(student, exercise, state, points, out_of, review, tier="namespaces", **fields)


def submission(person: Person, source: str = "", **fields: object) -> Submission:
    fields.setdefault("texts", {id: f"{text} So says {person.name}." for id, text in TEXTS.items()})
    return Submission(person, 1, source or f"{person.id}.zip", f"digest of {person.id}", Answers(), **fields)


def student(person: Person, source: str = "", exercises: list[str] = GRADED, **fields: object) -> Student:
    """Somebody who got everything right and whose texts nobody has read."""
    records = {id: record(person.id, id, AWAITING if not EXERCISES[id].parts else "passed") for id in exercises}
    return Student(person, submission(person, source, **fields), records, attempts=1)


def classroom() -> Classroom:
    """Ten people: every state, every status, marks, corrections, incidents, notebooks."""
    people = [
        Person("ada", "Ada Lovelace", "A"),
        Person("bo", "Bo Zoë Müller", "B"),
        Person("cy", "Cy Young", "A"),
        Person("dee", "Dee Absent", "B"),
        Person("eve", "Eve Broken", "A"),
        Person("flo", "Flo 王", "B"),
        Person("gus", "Gus Partly", "A"),
        Person("hal", "Hal Later", "B"),
        Person("ida", "Ida Same", "A"),
        Person("joe@example.edu", "Joe Mail", "B"),
    ]
    students = {person.id: student(person) for person in people}
    ada, bo, cy, flo, gus = (students[id] for id in ("ada", "bo", "cy", "flo", "gus"))
    ada.marks = {
        id: Mark(
            "ada", id, float(sum(EXERCISES[id].rubric.values())), tuple(EXERCISES[id].rubric), "Well said.", "Tina"
        )
        for id in ("6.1", "6.2", "6.3")
    }
    bo.records["1.1"] = record(
        "bo",
        "1.1",
        "wrong",
        diagnosis=("scores are not divided; divide by the square root of the head width",),
        lines=("scores are not divided; divide by the square root of the head width", "values: the shape is right"),
        parts={"values": False, "gradients": None, "invariant: spread at every width": None},
        stage="values",
        picture=PICTURE,
    )
    bo.adjustments = [
        Adjustment("bo", "1.1", 1.0, "The question was unclear."),
        Adjustment("bo", "", -0.5, "One day late."),
    ]
    cy.records["1.1"] = record("cy", "1.1", "wrong", diagnosis=bo.records["1.1"].diagnosis)
    cy.records["1.6"] = record(
        "cy",
        "1.6",
        "stopped",
        lines=("stopped: it did not end within 20 seconds",),
        detail="timeout",
        incident="3 processes were left over and ended",
    )
    cy.submission = submission(
        people[2],
        "Cy Young_4711_assignsubmission_file_",
        repairs=("attention.py: read as UTF-16",),
        changes=("attention.py: a print outside the answers",),
        incidents=("../../x.py: a path out of the archive, left out",),
    )
    students["dee"] = Student(people[3])
    students["eve"] = Student(
        people[4], submission(people[4], "broken.zip", texts={}, problem="it is no zip"), attempts=1
    )
    flo.submission = submission(
        people[5], "flowang_LATE_123_4567_homework.zip", texts={"6.2": "*Your answer, in one to five sentences.*"}
    )
    gus.records["1.6"] = record(
        "gus",
        "1.6",
        "partly",
        2,
        lines=("gradients: by query: expected 0.25, got 0.5",),
        stage="gradients",
        parts={"values": True, "values: masks and weights": True, "gradients": False, "dropout": None},
    )
    gus.notebooks = {"01_attention": NotebookRun("gus", "01_attention", {}, {"1.1": "failed", "1.6": "passed"}, "")}
    gus.records["4.6"] = record(
        "gus", "4.6", "forbidden call", lines=("torch.nn.Transformer does what 4.6 asks you to write",)
    )
    del students["hal"].records["6.3"]
    return Classroom(
        GRADED,
        students,
        KEY,
        "namespaces",
        {"course": "0.1.0", "torch": "2.14.1"},
        {"stray.txt": "no submission in it"},
    )


def hostile_classroom() -> Classroom:
    """Everybody's names, texts, sentences, comments and reasons try something."""
    students = {}
    for number, text in enumerate(HOSTILE):
        person = Person(f"{number} {text}"[:300], text, text)
        one = student(
            person,
            f"{text[:200]}_{number}_assignsubmission_file_",
            texts=dict.fromkeys(("6.1", "6.2", "6.3"), text),
            repairs=(text,),
            changes=(text,),
            incidents=(text,),
            manifest={"versions": text},
        )
        picture = {**PICTURE, "label": text}
        one.records["1.1"] = record(
            person.id,
            "1.1",
            "wrong",
            lines=(text,) * 40,
            diagnosis=(text[:100],),
            incident=text,
            picture=picture,
            parts={text[:50]: False},
            detail=text,
        )
        one.marks = {"6.2": Mark(person.id, "6.2", 2.0, (), text, text)}
        one.adjustments = [Adjustment(person.id, "1.1", -1.0, text)]
        one.notebooks = {"01_attention": NotebookRun(person.id, "01_attention", {}, {"1.1": text[:50]}, text)}
        students[person.id] = one
    return Classroom(GRADED, students, KEY, SCRIPT, {"torch": SCRIPT}, {text[:400]: text for text in HOSTILE})
