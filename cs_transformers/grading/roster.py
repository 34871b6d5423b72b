"""The roster: who is in the class, and whose a delivery is by the name of its file or folder."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from .model import Person
from .repairs import to_text

_COLUMNS = {
    "id": ("id", "student id", "sid", "sis user id", "sis login id", "username", "user name", "id number", "login",
           "email", "matriculation number"),
    "name": ("name", "full name", "student", "student name"),
    "first": ("first name", "given name", "firstname"),
    "last": ("last name", "surname", "family name", "lastname"),
    "section": ("section", "group", "groups"),
}  # fmt: skip
_UNSAFE = re.compile(r"[/\\\x00-\x1f:*?\"<>|]|^\.|\.$|^\s|\s$")
_ID_LIMIT, _BYTE_LIMIT = 100, 200  # letters, and bytes that a file system takes with something behind them


def read_roster(path: Path) -> list[Person]:
    """The people of a class, in the order of the file.

    Args:
        path: A CSV file with column names in its first line: ``id``, ``name``, ``section``, or those of a platform.

    Raises:
        ValueError: If there is no column of ids, an id stands twice or cannot name a file.
    """
    if not path.is_file():
        raise ValueError(f"roster: expected a CSV file, got {path}, which is none; give the path of the roster")
    text = to_text(path.read_bytes(), path.name)[0]  # spreadsheets write other encodings too
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        # A quoted cell may span lines; a quote that never ends would swallow the people behind it, so it is an error.
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        lines = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"roster: expected a CSV file, got {path.name} ({error}); save it as CSV again") from None
    header = [" ".join(cell.casefold().replace("_", " ").split()) for cell in lines[0][1]] if lines else []
    places = {
        wanted: next((header.index(name) for name in names if name in header), None)
        for wanted, names in _COLUMNS.items()
    }
    if places["id"] is None:
        raise ValueError(
            f"roster: expected a column 'id' in the first line of {path.name}, got {', '.join(header) or 'nothing'}; "
            "name the columns id,name,section"
        )
    people: dict[str, Person] = {}
    for number, row in lines[1:]:
        found = {name: row[at] if at is not None and at < len(row) else "" for name, at in places.items()}
        cells = {name: " ".join(text.split()) for name, text in found.items()}
        if any(cells.values()):
            person = _person(cells, f"{path.name}, line {number}")
            if person.id in people:
                raise ValueError(f"roster: {path.name}, line {number}: expected each id once, got {person.id} again")
            people[person.id] = person
    return list(people.values())


def _person(cells: dict[str, str], place: str) -> Person:
    id = cells["id"]
    if not id or _UNSAFE.search(id) or len(id) > _ID_LIMIT or len(id.encode()) > _BYTE_LIMIT:
        raise ValueError(
            f"roster: {place}: expected an id that can name a file, got {cells['id']!r}; ids have no slashes, "
            "colons or control characters"
        )
    name = cells["name"] or " ".join(filter(None, [cells["first"], cells["last"]]))
    return Person(cells["id"], unicodedata.normalize("NFC", name), cells["section"])


def plain(text: str) -> str:
    """A name for comparing: no accents, no case, words in order of the alphabet.

    Args:
        text: A name.

    Example:
        >>> plain("Müller, Ana-María") == plain("ana maria MULLER")
        True
    """
    return " ".join(sorted(words(text)))


def words(text: str) -> list[str]:
    """The words of a name without accents and case.

    Args:
        text: A name.
    """
    folded = text.replace("ß", "ss").replace("ø", "o").replace("Ø", "O").replace("ł", "l").replace("Ł", "L")
    letters = unicodedata.normalize("NFKD", folded)
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter)).casefold()
    return re.findall(r"[^\W_]+", letters)


def slug(text: str) -> str:
    """An id made from a name: letters, figures, dots, hyphens and underscores of any script.

    Args:
        text: A name.

    Example:
        >>> slug("  Ana María / Müller ")
        'ana_maría_müller'
    """
    text = unicodedata.normalize("NFC", text).strip().casefold()
    id = re.sub(r"[^\w.-]+", "_", text).strip("_.-") or "unnamed"
    if len(id) <= _ID_LIMIT and len(id.encode()) <= _BYTE_LIMIT:
        return id
    mark = hashlib.sha256(id.encode()).hexdigest()[:8]  # two long names may begin alike
    return f"{id.encode()[: _ID_LIMIT - 9].decode(errors='ignore')}_{mark}"


@dataclass
class Roster:
    """Finds people by what they are called.

    Args:
        people: The class.
    """

    people: list[Person]
    _by_id: dict[str, Person] = field(init=False)
    _by_name: dict[str, list[Person]] = field(init=False)

    def __post_init__(self) -> None:
        self._by_id = {person.id.casefold(): person for person in self.people}
        self._by_name = {}
        for person in self.people:
            for form in {plain(person.name), *_run_together(person.name)} - {""}:
                self._by_name.setdefault(form, []).append(person)

    def find(self, name: str, numbers: tuple[str, ...] = ()) -> tuple[Person | None, str]:
        """The person meant, and why there is none where a name fits several.

        Args:
            name: A name or an id, as a file or folder bears it.
            numbers: Ids that a learning platform wrote beside it.
        """
        for text in (name, *numbers):
            if text.casefold() in self._by_id:
                return self._by_id[text.casefold()], ""
        listed = {person.id: person for person in self._by_name.get(plain(name), [])}
        listed = listed or {person.id: person for person in self._by_name.get("".join(words(name)), [])}
        if len(listed) == 1:
            return next(iter(listed.values())), ""
        if listed:
            return None, f"{name}: several people on the roster bear this name ({', '.join(listed)})"
        tokens = re.split(r"[\s_,;()]+", name.casefold())
        inside = {self._by_id[token].id: self._by_id[token] for token in tokens if token in self._by_id}
        return (next(iter(inside.values())), "") if len(inside) == 1 else (None, "")


def _run_together(name: str) -> set[str]:
    """A name as Canvas writes it in file names: last name, then first names, without blanks."""
    if "," in name:
        last, _, first = name.partition(",")
        return {"".join([*words(last), *words(first)])}
    parts = words(name)
    return {"".join(parts[at:] + parts[:at]) for at in range(1, len(parts))} | {"".join(parts)}
