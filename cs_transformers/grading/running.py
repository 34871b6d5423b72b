"""The runner of graded answers: which process a job belongs into, and a tree that is quick to write and to import."""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cs_transformers.checks import tree
from cs_transformers.checks.client import Answer, Worker
from cs_transformers.checks.registry import Exercise
from cs_transformers.checks.runner import Runner

IN_MEMORY = "/dev/shm"
UNCHECKED = (1).to_bytes(4, "little")  # of a file of compiled code: take it without a look at the source


@dataclass
class GradedRunner(Runner):
    """Runs answers in the sandbox, and what makes inputs or scores weights in the process of the solutions.

    Args:
        trusted: The worker of the solutions, in which no student's code ever runs.
    """

    trusted: Worker | None = field(default=None)

    def _job(self, exercise: Exercise, answers: tree.Answers, without: frozenset[str], seed: int, **job) -> Answer:
        if job.get("check") not in ({exercise.inputs, exercise.scoring} - {""}):
            return super()._job(exercise, answers, without, seed, **job)
        runner = Runner(self.package, worker=self.trusted, sources=self.sources)
        return runner._job(exercise, answers, without, seed, **job)

    @contextlib.contextmanager
    def _tree(self, answers: tree.Answers, without: frozenset[str]) -> Iterator[Path]:
        folder = IN_MEMORY if os.access(IN_MEMORY, os.W_OK | os.X_OK) else None
        with tempfile.TemporaryDirectory(f"-{os.getpid()}", "cst-tree-", folder, ignore_cleanup_errors=True) as made:
            root = tree.rebuild(Path(made).resolve(), self._sources(), answers, without_helpers=without)
            for path, code in self._compiled.items():
                if not answers.regions.get(path):
                    target = Path(importlib.util.cache_from_source(str(root / tree.PACKAGE_NAME / path)))
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(code)
            yield root

    @cached_property
    def _compiled(self) -> dict[str, bytes]:
        """Compiled code of every source, for the files that an answer leaves as they are."""
        found = {}
        for path, text in self._sources().items():
            code = compile(text, path, "exec", dont_inherit=True)
            mark = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(text.encode())
            found[path] = mark + marshal.dumps(code)
        return found
