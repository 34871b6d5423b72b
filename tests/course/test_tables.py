"""The README's table comes from the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from cs_transformers.checks import EXERCISES, NOTEBOOKS
from cs_transformers.course import tables

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_readme_holds_the_table_of_the_registry() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tables.exercise_table() in text, "run: cst refresh"


def test_the_table_names_every_exercise_and_module() -> None:
    table = tables.exercise_table()
    for one in EXERCISES.values():
        assert one.id in table
        assert one.symbol in table
        assert one.file in table


def test_updating_touches_only_what_stands_between_the_comments(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"above\n{tables.BEGIN}\nold\n{tables.END}\nbelow\n", encoding="utf-8")
    assert tables.update_readme(path)
    assert path.read_text(encoding="utf-8").startswith(f"above\n{tables.BEGIN}\n| notebook |")
    assert path.read_text(encoding="utf-8").endswith(f"|\n{tables.END}\nbelow\n")
    assert not tables.update_readme(path), "a second time changes nothing"


@pytest.mark.parametrize(
    "text", ["none", f"{tables.END} {tables.BEGIN}", f"{tables.BEGIN} {tables.BEGIN} {tables.END}"]
)
def test_a_readme_without_its_comments_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="expected <!-- exercises:begin -->"):
        tables.update_readme(path)
    assert path.read_text(encoding="utf-8") == text


def test_the_instructors_page_gives_the_points_of_the_registry() -> None:
    page = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    points = {number: sum(one.points for one in EXERCISES.values() if one.notebook == number) for number in NOTEBOOKS}
    listed = ", ".join(f"{number} {sum_}" for number, sum_ in points.items())
    core = sum(points[number] for number in ("01", "02", "03", "04", "05", "06"))
    assert f"{sum(points.values())} points: notebook {listed}; 01 to 06, the core, make {core}." in " ".join(
        page.split()
    )
