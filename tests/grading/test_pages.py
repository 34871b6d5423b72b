from __future__ import annotations

import sys

import pytest

from cs_transformers.grading import pages
from cs_transformers.grading.pages import markup, render, script_hash, script_source


def index(**entry: object) -> str:
    return render(
        "index.html.j2", pages=[{"exercise": "6.2", "symbol": "", "part": 1, "count": 2, "file": "a", **entry}]
    )


def test_what_comes_from_outside_is_escaped_and_cleaned() -> None:
    page = index(symbol="<b>\u202e{{ 1 }}</b>")
    assert "&lt;b&gt;\ufffd{{ 1 }}&lt;/b&gt;" in page


def test_markup_of_our_own_stays() -> None:
    assert "<i>ours</i>" in index(symbol=markup("<i>ours</i>"))


def test_a_forgotten_value_is_an_error_and_no_gap() -> None:
    with pytest.raises(Exception, match="'pages' is undefined"):
        render("index.html.j2")


def test_a_missing_jinja_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pages._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"jinja2.*cs_transformers\[grade\]"):
        index()


def test_the_policy_names_the_very_script() -> None:
    # The digest changes with every edit; what must hold is its form, and that the script cannot end its element.
    assert script_hash("review.js").startswith("sha256-")
    assert len(script_hash("review.js")) == len("sha256-") + 44
    assert "</script" not in script_source("review.js")
