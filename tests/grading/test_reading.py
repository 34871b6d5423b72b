from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from classroom_factory import HOSTILE
from page_reading import Reader

from cs_transformers.checks import EXERCISES
from cs_transformers.grading.reading import copied_share, model_answer, oddities, question, to_html

TEXTS = [id for id, one in EXERCISES.items() if one.rubric]


@pytest.mark.parametrize("id", [id for id in TEXTS if id.startswith("6.")])
def test_every_question_and_its_answer_are_found_in_the_notebook(id: str) -> None:
    asked, answer = question(id), model_answer(id)
    assert asked.startswith(f"## {id} ")
    assert len(asked) > 200
    assert len(answer) > 100
    assert answer not in asked


def test_a_question_ends_where_the_next_begins(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["## 6.1 First\n", "text"]},
        {"cell_type": "code", "source": "print(1)"},
        {"cell_type": "markdown", "source": "more"},
        {"cell_type": "markdown", "source": "## 6.10 Tenth"},
        {"cell_type": "code", "source": "%%answer 6.10\nten"},
        {"cell_type": "code", "source": "%%answer 6.1\n one \n"},
    ]
    (tmp_path / "06_inline_questions.ipynb").write_text(json.dumps({"cells": cells}))
    assert question("6.1", tmp_path) == "## 6.1 First\ntext\n\nmore"
    assert question("6.10", tmp_path) == "## 6.10 Tenth"
    assert model_answer("6.1", tmp_path) == "one"
    assert (question("6.3", tmp_path), model_answer("6.3", tmp_path)) == ("", "")


def test_a_missing_notebook_has_no_question(tmp_path: Path) -> None:
    assert question("6.2", tmp_path) == ""
    assert question("99.1", tmp_path) == ""


@pytest.mark.parametrize("id", TEXTS[:3])
def test_a_text_copied_from_the_question_is_found(id: str) -> None:
    asked = " ".join(question(id).split())
    assert oddities(id, asked[40:600]) == ["copied from the question"]
    assert oddities(id, asked[40:400].upper().replace(",", "") + " I think so.") == ["copied from the question"]


@pytest.mark.parametrize("id", TEXTS[:3])
def test_the_courses_own_answer_is_recognised(id: str) -> None:
    assert "close to the model answer" in oddities(id, model_answer(id))


@pytest.mark.parametrize(
    "text",
    [
        "Each head has its own softmax, so it can look at one place while another looks elsewhere.",
        "A convolution knows that neighbouring pixels belong together; a Vision Transformer has to learn it from data.",
        "$T = (I/P)^2$ tokens, each compared with $T$ others: fourth power of the side.",
        "Yes.",
    ],
)
def test_an_answer_in_ones_own_words_is_not_accused(text: str) -> None:
    assert [oddities(id, text) for id in ("6.1", "6.2", "6.3")] == [[], [], []]


def test_blank_and_doubled_texts_are_found() -> None:
    assert oddities("6.2", "*Your answer, in one to five sentences.*") == ["blank"]
    assert oddities("6.2", "My own words.", 1) == ["the same text as 1 other"]
    assert oddities("6.2", "My own words.", 3) == ["the same text as 3 others"]


def test_the_share_of_copied_words_is_a_share() -> None:
    assert copied_share("a b c d e f g h", "a b c d x e f g h") == 2 / 5
    assert copied_share("a b", "a b") == 0.0, "too short to tell"
    assert copied_share("", "") == 0.0


def test_markdown_is_shown() -> None:
    shown = to_html("**bold** and *soft*, `code`\n\n* one\n* two\n\n|a|b|\n|-|-|\n|1|2|")
    for part in ("<strong>bold</strong>", "<em>soft</em>", "<code>code</code>", "<li>one</li>", "<td>1</td>"):
        assert part in shown


def test_formulas_stay_as_they_were_typed() -> None:
    assert "<code>$a_{t1} * b * c_{t2}$</code>" in to_html("so $a_{t1} * b * c_{t2}$ holds")
    assert "<code>$$x &lt; y$$</code>" in to_html("$$x < y$$")
    assert "\ue000" not in to_html("\ue0000\ue001 $x$")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_shown_answers_can_do_nothing(text: str) -> None:
    link = f"* [{text[:50]}](javascript:alert(1))\n\n<{text[:80]}>\n\n    {text[:80]}\n\n[a]: javascript:x\n\n[a]"
    nested = f"{text}\n\n> {text[:500]}\n\n{link}"
    reader = Reader(to_html(nested))
    allowed = {"p", "strong", "em", "code", "pre", "ul", "ol", "li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6",
               "table", "thead", "tbody", "tr", "th", "td", "hr", "br"}  # fmt: skip
    assert {tag for tag, _ in reader.elements} <= allowed
    assert all(set(attrs) <= {"class", "style", "start"} for _, attrs in reader.elements)


def test_deep_nesting_ends() -> None:
    assert len(to_html("> " * 5000 + "deep")) < 100_000
    assert len(to_html("*" * 5000 + "_" * 5000 + "`" * 5000)) < 100_000


def test_a_missing_markdown_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(ModuleNotFoundError, match=r"markdown-it-py.*cs_transformers\[grade\]"):
        to_html("x")
