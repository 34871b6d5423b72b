"""The runners of graded answers: which process a job belongs into, and trees that are quick to write and to import."""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from cs_transformers.checks import scratch, tree
from cs_transformers.checks.client import Answer, Worker
from cs_transformers.checks.registry import Exercise
from cs_transformers.checks.runner import Runner

PATIENCE = 10  # times the limit of an answer: a solution ends, however busy the machine is
UNCHECKED = (1).to_bytes(4, "little")  # of a file of compiled code: take it without a look at the source


@dataclass
class QuickRunner(Runner):
    """A runner whose trees lie in memory, with compiled code beside every file that an answer leaves as it is.

    Args:
        package: Folder of the package.
        worker: Where answers run: the sandbox.
        sources: Pristine sources; default: those that belong to the package.
        scoring: Answers whose tree judges trained weights and built inputs; default: the ones under test.
    """

    @contextlib.contextmanager
    def _tree(self, answers: tree.Answers, without: frozenset[str]) -> Iterator[Path]:
        folder = scratch.IN_MEMORY if os.access(scratch.IN_MEMORY, os.W_OK | os.X_OK) else None
        with scratch.folder("tree", folder) as made:
            os.chmod(made, 0o711)  # who runs beside this answer can neither list this folder nor guess the next name
            root = Path(made).resolve() / secrets.token_hex(16)
            tree.rebuild(root, self._sources(), answers, without_helpers=without)
            for path, code in self._compiled.items():
                if not answers.regions.get(path):
                    target = Path(importlib.util.cache_from_source(str(root / tree.PACKAGE_NAME / path)))
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(code)
            yield root

    @cached_property
    def _compiled(self) -> dict[str, bytes]:
        found = {}
        for path, text in self._sources().items():
            code = compile(text, path, "exec", dont_inherit=True)
            mark = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(text.encode())
            found[path] = mark + marshal.dumps(code)
        return found


@dataclass
class GradedRunner(QuickRunner):
    """Runs answers in the sandbox, and what makes inputs or scores weights in the process of the solutions.

    Args:
        package: Folder of the package.
        worker: Where answers run: the sandbox.
        sources: Pristine sources; default: those that belong to the package.
        scoring: Answers whose tree judges trained weights and built inputs.
        trusted: The worker of the solutions, in which no student's code ever runs.

    Raises:
        ValueError: If the answers that score are not given: they would be the student's.
    """

    trusted: Worker | None = field(default=None)
    _given: dict[tuple[str, int], dict[str, np.ndarray]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.scoring is None or self.trusted is None:
            raise ValueError("GradedRunner: expected a worker and answers that score, got none; give the solutions")

    def _prepared(self, exercise: Exercise, answers: tree.Answers, seed: int) -> dict[str, np.ndarray]:
        """Inputs made by the solutions: the same for all, so made once."""
        if (exercise.id, seed) not in self._given:
            prepared = super()._prepared(exercise, answers, seed)
            if not prepared:
                return {}
            self._given[exercise.id, seed] = prepared
        return self._given[exercise.id, seed]

    def _job(self, exercise: Exercise, answers: tree.Answers, without: frozenset[str], seed: int, **job) -> Answer:
        if job.get("check") not in ({exercise.inputs, exercise.scoring} - {""}):
            return super()._job(exercise, answers, without, seed, **job)
        runner = Runner(self.package, worker=self.trusted, sources=self.sources)
        patient = {"seconds": PATIENCE * exercise.seconds, **job}
        return runner._job(exercise, self.scoring, frozenset(), seed, **patient)
