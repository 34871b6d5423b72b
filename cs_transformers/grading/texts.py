"""Text from outside made harmless: in pages, in spreadsheets, as file names. And how points are written."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from cs_transformers.checks.runner import EMPTY_ANSWER

LONGEST = 20_000
LONGEST_LINE = 600
LONGEST_NAME = 80
# Characters that turn the direction of what follows them can make a name or a program read as something else.
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
PLACEHOLDERS = frozenset({"todo", "your answer here", "your answer", "answer", "n a", "na", "none", "tbd"})
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
# Names that Windows keeps for devices, whatever follows the dot.
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))})


def inert(text: object, limit: int = LONGEST) -> str:
    r"""Text without what a reader cannot see: control characters, changes of direction, halves of characters.

    Args:
        text: Anything; it is made a string.
        limit: Characters to keep; the rest becomes one note.

    Example:
        >>> inert("a\u202eb\x00c") == "a\ufffdb\ufffdc"
        True
    """
    whole = str(text)
    kept = whole[:limit].encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    clean = "".join(char if _is_plain(char) else "\ufffd" for char in kept)
    return clean if len(whole) <= limit else f"{clean} ... ({len(whole) - limit} more characters)"


def _is_plain(char: str) -> bool:
    return char in "\n\t" or (unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in DIRECTIONS)


def one_line(text: object, limit: int = LONGEST_LINE) -> str:
    """Inert text on one line.

    Args:
        text: Anything; it is made a string.
        limit: Characters to keep.
    """
    return " ".join(inert(text, limit).split())


def cell(value: object) -> str:
    """A cell of a spreadsheet that no program takes for a formula.

    Args:
        value: A number, which stays one, or text.

    Example:
        >>> cell("=1+1"), cell(-2)
        ("'=1+1", '-2')
    """
    if isinstance(value, int | float):
        return number(value)
    line = one_line(value)
    return f"'{line}" if line.startswith(FORMULA_STARTS) and len(line) > 1 else line


def number(value: float) -> str:
    """Points as people write them.

    Args:
        value: Points.

    Example:
        >>> number(3.0), number(2.5), number(-0.0)
        ('3', '2.5', '0')
    """
    return f"{round(value, 2) + 0.0:g}" if abs(value) < 1e6 else f"{value:.2f}"


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """A file name without ending for each id: readable, safe on every system, no two alike.

    Args:
        ids: Ids of people.

    Example:
        >>> file_names(["ada", "../ada"])["ada"]
        'ada'
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for id in ids:
        name = UNSAFE.sub("_", id)[:LONGEST_NAME].strip("._-") or "student"
        name = f"student-{name}" if name.lower().partition(".")[0] in DEVICES else name
        if name != id or name.lower() in taken:
            name = f"{name}-{hashlib.sha256(id.encode('utf-8', 'replace')).hexdigest()[:8]}"
        taken.add(name.lower())
        names[id] = name
    return names


def is_blank(text: str) -> bool:
    """Whether an inline answer says nothing: empty, the placeholder, or a word that stands for one.

    Args:
        text: The answer, Markdown.

    Example:
        >>> is_blank("**TODO**"), is_blank("Two heads look at two places.")
        (True, False)
    """
    words = " ".join(re.findall(r"\w+", text.lower()))
    return not words or text.strip() == EMPTY_ANSWER or words in PLACEHOLDERS
