from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from classroom_factory import HOSTILE, classroom, hostile_classroom

from cs_transformers.grading import gradebook
from cs_transformers.grading.model import Classroom, Person, Student
from cs_transformers.grading.texts import FORMULA_STARTS

CANVAS_HEAD = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]


def tables(found: Classroom, out: Path) -> dict[str, list[list[str]]]:
    read = {}
    for path in gradebook.write(found, out):
        text = path.read_text(encoding="utf-8")
        read[path.name] = list(csv.reader(io.StringIO(text)))
    return read


def rows(found: Classroom, out: Path, name: str, key: str) -> dict[str, dict[str, str]]:
    head, *lines = tables(found, out)[name]
    return {line[head.index(key)]: dict(zip(head, line, strict=True)) for line in lines}


def test_everybody_has_a_line_with_a_status(tmp_path: Path) -> None:
    book = rows(classroom(), tmp_path, "gradebook.csv", "id")
    assert list(book) == [*classroom().students, "stray.txt"]
    assert all(line["status"] for line in book.values())
    assert (book["dee"]["status"], book["dee"]["total"]) == ("absent", "0")
    assert (book["stray.txt"]["status"], book["stray.txt"]["note"]) == ("could not be graded", "no submission in it")


def test_code_texts_and_corrections_are_separate_columns(tmp_path: Path) -> None:
    bo = rows(classroom(), tmp_path, "gradebook.csv", "id")["bo"]
    assert [bo[name] for name in ("total", "automatic", "texts", "adjustments", "out_of")] == [
        "10.5",
        "10",
        "0",
        "0.5",
        "21",
    ]
    assert (bo["1.1"], bo["6.1"], bo["6.1 text"]) == ("0", "2", "awaiting review")


def test_an_unread_text_is_never_a_zero(tmp_path: Path) -> None:
    book = rows(classroom(), tmp_path, "gradebook.csv", "id")
    assert [book["bo"][f"{id} text"] for id in ("6.1", "6.2", "6.3")] == ["awaiting review"] * 3
    assert book["ada"]["6.2 text"] == "4"
    assert book["flo"]["6.2 text"] == "0", "a blank text is 0: nobody has to read it"


def test_a_missing_verdict_is_an_empty_cell(tmp_path: Path) -> None:
    assert rows(classroom(), tmp_path, "gradebook.csv", "id")["hal"]["6.3"] == ""


def test_canvas_reads_its_own_columns(tmp_path: Path) -> None:
    head, possible, *lines = tables(classroom(), tmp_path)["gradebook_canvas.csv"]
    assert head == [*CANVAS_HEAD, "cs_transformers: code", "cs_transformers: texts"]
    assert possible == ["    Points Possible", "", "", "", "", "13", "8"]
    by_name = {line[0]: line[1:] for line in lines}
    assert by_name["Flo 王"] == ["123", "flo", "flo", "B", "13", "0"], "Canvas's own id stands in the file's name"
    assert by_name["Bo Zoë Müller"][-2:] == ["10", ""], "an empty cell while a text waits"
    assert by_name["Eve Broken"][-2:] == ["", ""]
    assert by_name["Joe Mail"][:3] == ["", "", "joe@example.edu"]


def test_moodle_reads_its_own_columns(tmp_path: Path) -> None:
    sheet = rows(classroom(), tmp_path, "gradebook_moodle.csv", "Full name")
    assert list(sheet["Cy Young"]) == list(gradebook.MOODLE_COLUMNS)
    assert sheet["Cy Young"]["Identifier"] == "Participant 4711"
    assert (sheet["Ada Lovelace"]["Grade"], sheet["Ada Lovelace"]["Maximum Grade"]) == ("21", "21")
    assert sheet["Bo Zoë Müller"]["Grade"] == ""
    assert sheet["Joe Mail"]["Email address"] == "joe@example.edu"


@pytest.mark.parametrize("name", ["gradebook.csv", "gradebook_canvas.csv", "gradebook_moodle.csv"])
def test_no_cell_is_a_formula_whatever_people_are_called(name: str, tmp_path: Path) -> None:
    lines = tables(hostile_classroom(), tmp_path)[name]
    assert len(lines) >= len(HOSTILE)
    for line in lines:
        assert len(line) == len(lines[0]), "a name with a line end is one cell"
        for value in line:
            if value.startswith(FORMULA_STARTS):
                assert value == "-" or float(value) == float(value), value
            assert not set(value) & set("\n\r\x00\x1b\u202e")


def test_moodles_comments_are_escaped_because_moodle_shows_html(tmp_path: Path) -> None:
    lines = tables(hostile_classroom(), tmp_path)["gradebook_moodle.csv"][1:]
    assert all("<" not in line[-1] for line in lines)


def test_the_same_class_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (gradebook.write(classroom(), tmp_path / name) for name in "ab")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_a_class_of_nobody_has_its_columns(tmp_path: Path) -> None:
    empty = tables(Classroom(["1.1"]), tmp_path)
    assert empty["gradebook.csv"][0][:3] == ["id", "name", "section"]
    assert empty["gradebook_canvas.csv"][0][:5] == CANVAS_HEAD


def test_a_person_who_is_on_no_roster_has_no_school_id(tmp_path: Path) -> None:
    found = Classroom(["1.1"], {"x": Student(Person("x", "X", listed=False))})
    assert tables(found, tmp_path)["gradebook_canvas.csv"][2][2:4] == ["", ""]
