"""Markers: one grammar, refusals with file and line, and bodies that stay in their function."""

from __future__ import annotations

import ast

import pytest

from cs_transformers.checks import markers
from cs_transformers.checks.markers import MarkerError, find_regions, lift, make_stubs

SOURCE = '''"""A module."""
import math

### BEGIN SOLUTION helpers
# nothing
### END SOLUTION helpers


class Layer:
    def forward(self, x):
        """Doc."""
        # Exercise 1.6: double (1 line).
        ### BEGIN SOLUTION 1.6
        text = """
at the margin
"""
        return 2 * x
        ### END SOLUTION 1.6

    def fast(self, x):
        ### BEGIN REFERENCE ONLY
        if x:
            return x
        ### END REFERENCE ONLY
        return self.forward(x)


def split(x):
    ### BEGIN SOLUTION 1.5 split
    return x
    ### END SOLUTION 1.5 split


def join(x):
    ### BEGIN SOLUTION 1.5 join
    return x
    ### END SOLUTION 1.5 join
'''


def test_regions_come_with_their_names_lines_and_bodies() -> None:
    found = markers.find_regions(SOURCE, "layer.py")
    assert [(one.kind, one.name) for one in found] == [
        ("SOLUTION", "helpers"),
        ("SOLUTION", "1.6"),
        ("REFERENCE ONLY", ""),
        ("SOLUTION", "1.5 split"),
        ("SOLUTION", "1.5 join"),
    ]
    lines = SOURCE.splitlines()
    for one in found:
        assert "BEGIN" in lines[one.first - 1]
        assert "END" in lines[one.last - 1]
    assert [one.exercise for one in found] == ["helpers", "1.6", "", "1.5", "1.5"]
    assert markers.lift(SOURCE)["1.6"].body.splitlines()[-1] == "        return 2 * x"


@pytest.mark.parametrize(
    "data", [SOURCE.encode("utf-8-sig"), SOURCE.replace("\n", "\r\n").encode(), SOURCE.encode("utf-16")]
)
def test_byte_order_marks_and_line_ends_change_nothing(data: bytes) -> None:
    assert markers.decode_source(data) == SOURCE


def test_bytes_that_are_no_text_are_refused_with_the_reason() -> None:
    with pytest.raises(
        ValueError, match=r"x\.py: expected Python source in UTF-8, got other bytes .*save the file as UTF-8"
    ):
        markers.decode_source(b"\xff\x00\x01", "x.py")


def begin(name: str) -> str:
    return f"### BEGIN SOLUTION {name}\n"


def end(name: str) -> str:
    return f"### END SOLUTION {name}\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (begin("1.1") + begin("1.2") + end("1.2") + end("1.1"), 2, "begins inside SOLUTION 1.1, begun in line 1"),
        (begin("1.1") + "### BEGIN REFERENCE ONLY\n", 2, "begins inside"),
        ("x\n" + begin("1.1") + "y\n", 2, "has no END marker"),
        (begin("1.1") + end("1.1") + begin("1.1") + end("1.1"), 3, "a second time, first in line 1"),
        (begin("1.1") + end("1.1") + "### BEGIN ANSWER 1.1\n### END ANSWER 1.1\n", 3, "a second time"),
        ("### BEGIN SOLUTIN 1.1\n", 1, "unknown marker 'SOLUTIN 1.1'"),
        ("### BEGIN SOLUTION\n", 1, "unknown marker"),
        ("### BEGIN SOLUTION one.two\n", 1, "unknown marker"),
        (end("1.1"), 1, "meets no open region"),
        (begin("1.1") + end("1.2"), 2, "meets SOLUTION 1.1 open since line 1"),
        (begin("1.1") + "### END ANSWER 1.1\n", 2, "END of ANSWER 1.1 meets SOLUTION 1.1"),
    ],
)
def test_a_marker_that_breaks_the_grammar_is_refused_with_file_and_line(text: str, line: int, says: str) -> None:
    with pytest.raises(MarkerError) as caught:
        markers.find_regions(text, "attention.py")
    assert str(caught.value).startswith(f"attention.py, line {line}: ")
    assert says in str(caught.value)
    assert caught.value.line == line


def test_markers_are_found_whatever_blanks_and_case_an_editor_left() -> None:
    text = "    ###  begin   answer  1.10\t\n    return 1\n    ### End Answer 1.10  \n"
    assert list(markers.lift(text)) == ["1.10"]


def test_stubs_parse_raise_and_keep_everything_else() -> None:
    stub = markers.make_stubs(SOURCE, "layer.py")
    assert "SOLUTION" not in stub
    assert "REFERENCE" not in stub
    assert "2 * x" not in stub
    space: dict = {}
    exec(compile(stub, "layer.py", "exec"), space)
    with pytest.raises(NotImplementedError, match=r"exercise 1\.6 "):
        space["Layer"]().fast(1)
    with pytest.raises(NotImplementedError, match=r"exercise 1\.5 join"):
        space["join"](1)
    kept = [
        line for line in stub.splitlines() if "###" not in line and "raise" not in line and not line.startswith("# ")
    ]
    assert set(kept) <= set(SOURCE.splitlines())


def test_exercises_that_are_released_solved_keep_their_code_and_lose_their_markers() -> None:
    stub = markers.make_stubs(SOURCE, keep=("1.6", "1.5", "helpers"))
    assert "###" not in stub
    ast.parse(stub)
    assert "return 2 * x" in stub


def test_lifting_and_splicing_there_and_back_is_the_identity() -> None:
    bodies = {name: region.body for name, region in markers.lift(SOURCE).items()}
    assert markers.splice(SOURCE, bodies) == SOURCE
    stub = markers.make_stubs(SOURCE)
    again = markers.splice(stub, bodies)
    assert again == markers.remove_reference_only(SOURCE).replace("SOLUTION", "ANSWER")


def test_splicing_one_region_leaves_the_others_alone() -> None:
    changed = markers.splice(SOURCE, {"1.5 join": "    return -x"})
    assert markers.lift(changed)["1.5 join"].body == "    return -x\n"
    assert markers.lift(changed)["1.6"].body == markers.lift(SOURCE)["1.6"].body


def test_splicing_an_unknown_region_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"layer\.py: expected a region 9\.9, got only helpers, 1\.6.*restore the marker"
    ):
        markers.splice(SOURCE, {"9.9": ""}, "layer.py")


@pytest.mark.parametrize(
    ("body", "stub"),
    [
        ('raise NotImplementedError("exercise 1.1")\n', True),
        ("raise NotImplementedError\n", True),
        ("# later\n", True),
        ("...\n", True),
        ("pass\n", True),
        ('"""later"""\nraise NotImplementedError\n', True),
        ("return 1\n", False),
        ("raise ValueError\n", False),
        ("x = 1\nraise NotImplementedError\n", False),
        ("return (\n", False),
    ],
)
def test_a_stub_is_a_body_that_only_says_it_is_not_written(body: str, stub: bool) -> None:
    assert markers.is_stub(body) is stub


def region(body: str, indent: str = "    ", name: str = "1.1") -> markers.Region:
    text = f"def f(x):\n{indent}### BEGIN ANSWER {name}\n{body}{indent}### END ANSWER {name}\n"
    return markers.lift(text)[name]


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("    y = x\n    return (y\n", 4, "not valid Python"),
        ("    return x\nimport os\n", 4, "leaves its function"),
        ("    return x\n\n\nclass Other:\n    pass\n", 6, "leaves its function"),
        ("  return x\n", 3, "not valid Python"),
        ("\treturn x\n", 3, "not valid Python"),
    ],
)
def test_a_body_that_cannot_stand_in_its_function_is_named_with_its_line(body: str, line: int, says: str) -> None:
    found_line, sentence = markers.body_problem(region(body))
    assert says in sentence
    assert found_line == line


@pytest.mark.parametrize(
    "body",
    [
        "    return x\n",
        '    t = """\nmargin\n"""\n    return t\n',
        "    def g():\n        return x\n\n    return g()\n",
    ],
)
def test_a_sound_body_has_no_problem(body: str) -> None:
    assert markers.body_problem(region(body)) is None


def test_helpers_may_hold_any_module_level_code_that_parses() -> None:
    assert markers.body_problem(region("import math\n\n\ndef g():\n    return 1\n", "", "helpers")) is None
    assert "not valid Python" in markers.body_problem(region("import\n", "", "helpers"))[1]


SEVERAL = """\
### BEGIN SOLUTION helpers
import math
### END SOLUTION helpers

def f():
    ### BEGIN SOLUTION 1.1
    return math.pi
    ### END SOLUTION 1.1

def g():
    ### BEGIN SOLUTION 2.1
    return math.tau
    ### END SOLUTION 2.1
"""


def test_what_is_given_keeps_its_code_and_its_helpers_beside_an_empty_region() -> None:
    text = make_stubs(SEVERAL, keep=("1.1",))
    assert text.startswith("import math\n### BEGIN ANSWER helpers\n# Your own imports")
    assert "    return math.pi\n" in text
    assert "math.tau" not in text
    assert set(lift(text)) == {"helpers", "2.1"}
    assert find_regions(make_stubs(SEVERAL, keep=("1.1", "2.1"))) == []


def test_what_is_handed_out_later_is_a_stub_without_markers() -> None:
    text = make_stubs(SEVERAL, later=("1.1", "2.1"))
    assert 'def f():\n    raise NotImplementedError("exercise 1.1 comes later")\n' in text
    assert find_regions(text) == []
    assert "math" not in text


def test_helpers_of_a_solution_leave_with_it() -> None:
    text = make_stubs(SEVERAL)
    assert "import math" not in text
    assert set(lift(text)) == {"helpers", "1.1", "2.1"}
