"""What every committed notebook keeps to, so that it runs anywhere and compares everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cs_transformers.course import notebooks

nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).resolve().parent.parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CORE = [
    "01_attention",
    "02_positional_encoding",
    "03_transformer_blocks",
    "04_image_captioning",
    "05_vision_transformer",
    "06_inline_questions",
]


def test_the_core_notebooks_are_there() -> None:
    assert [path.stem for path in PATHS][: len(CORE)] == CORE


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def notebook(path: Path) -> object:
    return notebooks.read(path)


def code_cells(notebook: object) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_in_normal_form(path: Path, notebook: object) -> None:
    nbformat.validate(notebook)
    assert nbformat.writes(notebooks.normalise(notebook, path.stem)) + "\n" == path.read_text(encoding="utf-8")


def test_it_has_one_title_and_a_section_for_each_exercise(path: Path, notebook: object) -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    checked = re.findall(r'check\("(\d+\.\d+)"\)', "\n".join(cell.source for cell in code_cells(notebook)))
    sections = re.findall(r"^## .*?(\d+\.\d+)", text, re.MULTILINE)
    assert set(checked) <= set(sections), f"{path.stem}: a check without its section"


def test_the_first_code_cell_is_the_shared_set_up(path: Path, notebook: object) -> None:
    assert code_cells(notebook)[0].source == notebooks.setup_cell(path.stem[:2])


def test_cells_are_short_and_define_no_class(notebook: object) -> None:
    for cell in code_cells(notebook)[1:]:  # the shared first cell has a limit of its own
        assert len(cell.source.splitlines()) < 20, cell.id
        assert not re.search(r"^\s*class \w", cell.source, re.MULTILINE), cell.id


def test_no_cell_holds_what_nbval_or_another_machine_cannot_digest(notebook: object) -> None:
    for cell in code_cells(notebook)[1:]:
        source = cell.source
        assert not re.search(r"^\s*(!|%cd|%pip|from \S+ import \*)", source, re.MULTILINE), cell.id
        assert not re.search(r"google\.colab|num_workers=[1-9]", source), cell.id
        assert not re.search(r"""["']/[a-z]""", source), f"{cell.id}: an absolute path"
        assert not source.rstrip().endswith(";"), f"{cell.id}: a semicolon silences nothing under nbval"


def test_the_last_expression_of_a_compared_cell_prints_nothing_by_itself(notebook: object) -> None:
    """A bare figure, line or array as last expression shows an address or digits of one machine."""
    for cell in code_cells(notebook):
        if "NBVAL_IGNORE_OUTPUT" in cell.source or cell.source.startswith("%%"):
            continue
        assert not [output for output in cell.outputs if output.output_type == "execute_result"], cell.id


def test_no_output_is_an_error_a_warning_or_a_path(notebook: object) -> None:
    assert notebooks.errors(notebook) == []
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.get("name") != "stderr", cell.id
            texts = [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
            assert not re.search(r"(?<![\w.])/(work|root|home|tmp|usr)/", "".join(texts)), cell.id


def test_every_cell_was_run(notebook: object) -> None:
    for cell in code_cells(notebook):
        assert cell.execution_count, cell.id
        if "NBVAL_CHECK_OUTPUT" in cell.source:
            assert cell.outputs, f"{cell.id}: nothing to compare with"


def test_every_code_cell_parses(notebook: object) -> None:
    for cell in code_cells(notebook):
        if not cell.source.startswith("%%"):
            ast.parse("\n".join(line for line in cell.source.splitlines() if not line.startswith("%")))
