from __future__ import annotations

import unicodedata

import pytest
from classroom_factory import HOSTILE

from cs_transformers.grading.texts import DIRECTIONS, cell, file_names, inert, is_blank, number, one_line


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_an_inert_text_has_no_character_that_a_reader_cannot_see(text: str) -> None:
    clean = inert(text)
    assert not DIRECTIONS & set(clean)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in clean)
    clean.encode("utf-8")
    assert len(clean) < 21_000


def test_an_inert_text_keeps_every_script_and_joined_emoji() -> None:
    kept = "Zoë 王 שלום مرحبا क्षि 👩‍🔬 \t tab\nline"
    assert inert(kept) == kept


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "@SUM(A1)", "  =1", "\t=1", "\r\n=1", "\uff1d1+1", "\uff0d1"])
def test_no_cell_of_text_starts_as_a_formula(text: str) -> None:
    assert cell(text) == "'" + " ".join(text.split())


def test_numbers_stay_numbers_in_a_cell() -> None:
    assert [cell(value) for value in (-2, -1.5, 0, 3.0, 2.125, 1e9)] == [
        "-2",
        "-1.5",
        "0",
        "3",
        "2.12",
        "1000000000.00",
    ]
    assert cell("-") == "-"


def test_points_are_written_without_a_tail() -> None:
    assert [number(value) for value in (4.0, 0.5, -0.0, 1 / 3)] == ["4", "0.5", "0", "0.33"]


def test_a_line_is_one_line_of_limited_length() -> None:
    assert one_line("a\nb\r\n\tc") == "a b c"
    assert len(one_line("x" * 10_000)) < 700


def test_file_names_are_safe_readable_and_all_different() -> None:
    ids = [
        "ada",
        "Ada",
        "ADA",
        "../ada",
        "a/b",
        "a\\b",
        "con",
        "NUL.txt",
        "",
        ".",
        "..",
        "王",
        "x" * 500,
        "-rf",
        "a b",
        "a\x00b",
    ]
    names = file_names(ids)
    assert names["ada"] == "ada"
    assert len({name.lower() for name in names.values()}) == len(ids)
    for name in names.values():
        assert name
        assert not set(name) & set('/\\:*?"<>| \x00')
        assert not name.startswith(".")
        assert len(name) < 100
        assert name.lower().partition(".")[0] not in ("con", "nul")


@pytest.mark.parametrize(
    "text", ["", "  \n", "*Your answer, in one to five sentences.*", "TODO", "**todo**", "n/a", "...", "- ", "None."]
)
def test_answers_that_say_nothing_are_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["16", "Locality.", "$T^2$", "It depends on the answer", "王"])
def test_short_answers_are_not_blank(text: str) -> None:
    assert not is_blank(text)
