"""HTML pages from templates: every text that comes from outside is made inert and escaped on its way in."""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any

from .texts import inert, number

TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, **values: Any) -> str:
    """Fill a template in.

    Args:
        template: Its file name.
        **values: What it shows.

    Raises:
        ModuleNotFoundError: If Jinja is not installed.
    """
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "grading: expected the package jinja2, which writes the pages, found none; "
            "pip install 'cs_transformers[grade]'"
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_clean,
    )
    environment.filters["number"] = number
    environment.globals["script"] = script_source
    return environment


def _clean(value: Any) -> Any:
    """Pass markup of our own, clean everything else."""
    return inert(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def markup(html: str) -> Any:
    """Mark HTML that this program made itself, so that a template does not escape it.

    Args:
        html: The HTML.
    """
    from markupsafe import Markup

    return Markup(html)


def script_source(name: str) -> Any:
    """A script of our own, to stand in a page.

    Args:
        name: Its file name among the templates.
    """
    return markup((TEMPLATES / name).read_text(encoding="utf-8"))


def script_hash(name: str) -> str:
    """What a page's policy says to allow this script and no other.

    Args:
        name: Its file name among the templates.
    """
    digest = hashlib.sha256((TEMPLATES / name).read_bytes()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
