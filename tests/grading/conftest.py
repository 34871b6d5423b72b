"""One sandbox and one judge for all tests of a process; makers of classes and submissions can be imported by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cs_transformers.grading.judging import Judge
from cs_transformers.grading.sandbox import Sandbox

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CST_SECRET", "of the judge alone")  # an answer looks for it
        with Sandbox() as sandbox, Judge(key=b"a key of some bytes", sandbox=sandbox) as judge:
            yield judge
