"""What a grader needs to read an inline answer: the question, the answer as a page shows it, what looks odd in it."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from cs_transformers.checks import NOTEBOOKS
from cs_transformers.course.classroom import course_home

from .texts import inert, is_blank

RUN = 4  # words in a row that count as copied
MATH = re.compile(r"\$\$.+?\$\$|\$[^$\n]+?\$", re.DOTALL)
ANSWER = re.compile(r"%%answer\s+(\S+)\s*\n?")


def question(exercise: str, folder: Path | None = None) -> str:
    """The text of a question, from its notebook; empty where there is none.

    Args:
        exercise: The question.
        folder: Where the notebooks lie; default: beside the package.
    """
    parts, inside = [], False
    for cell in _cells(exercise, folder or course_home() / "notebooks"):
        text = "".join(cell.get("source", ""))
        if cell.get("cell_type") == "markdown":
            inside = text.startswith(f"## {exercise} ") if text.startswith("## ") else inside
            parts += [text] if inside else []
    return "\n\n".join(parts)


def model_answer(exercise: str, folder: Path | None = None) -> str:
    """The course's own answer to a question, from its notebook; empty where there is none.

    Args:
        exercise: The question.
        folder: Where the notebooks lie; default: beside the package.
    """
    for cell in _cells(exercise, folder or course_home() / "notebooks"):
        text = "".join(cell.get("source", ""))
        found = ANSWER.match(text)
        if found and found[1] == exercise:
            return text[found.end() :].strip()
    return ""


@cache
def _cells(exercise: str, folder: Path) -> list[dict[str, Any]]:
    notebook = NOTEBOOKS.get(exercise.partition(".")[0].zfill(2))
    path = folder / f"{notebook.name if notebook else exercise}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else []


def copied_share(text: str, original: str) -> float:
    """Which share of a text's runs of four words stands in another text, 0 to 1.

    Args:
        text: An answer.
        original: What it may have been copied from.

    Example:
        >>> copied_share("what does it cost and what helps", "So what does it cost, and what helps?")
        1.0
    """
    runs, known = _runs(text), _runs(original)
    return sum(run in known for run in runs) / len(runs) if runs and known else 0.0


def _runs(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)]


def oddities(exercise: str, text: str, same: int = 0) -> list[str]:
    """What a grader should know before reading: blank, copied from the question or the model answer, handed in twice.

    Args:
        exercise: The question.
        text: The answer.
        same: How many others handed in this very text.
    """
    if is_blank(text):
        return ["blank"]
    found = []
    if copied_share(text, question(exercise)) >= 0.7:
        found.append("copied from the question")
    if copied_share(text, model_answer(exercise)) >= 0.6:
        found.append("close to the model answer")
    if same:
        found.append(f"the same text as {same} other{'s' if same > 1 else ''}")
    return found


def to_html(text: str) -> str:
    r"""Markdown as HTML that can do nothing: no HTML of its author's, no link or picture, formulas as they were typed.

    Args:
        text: Markdown from outside.

    Raises:
        ModuleNotFoundError: If markdown-it-py is not installed.

    Example:
        >>> to_html("**bold** <b>not</b>")
        '<p><strong>bold</strong> &lt;b&gt;not&lt;/b&gt;</p>\n'
    """
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "grading: expected the package markdown-it-py, which shows answers, found none; "
            "pip install 'cs_transformers[grade]'"
        ) from None
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20}).enable("table")
    parser.disable(["link", "image", "autolink", "html_inline", "html_block", "reference", "entity"])
    formulas: list[str] = []

    def kept(match: re.Match) -> str:
        formulas.append(match[0])
        return f"\ue000{len(formulas) - 1}\ue001"

    # Formulas go through untouched: Markdown would read their underscores and stars as emphasis.
    marked = MATH.sub(kept, re.sub("[\ue000\ue001]", "\ufffd", inert(text)))
    shown = parser.render(marked)
    return re.sub("\ue000(\\d+)\ue001", lambda found: f"<code>{html.escape(formulas[int(found[1])])}</code>", shown)
