"""One warm worker for all tests of the checks, and answers to put wrong bodies into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cs_transformers.checks import EXERCISES, Verdict
from cs_transformers.checks.client import Worker
from cs_transformers.checks.markers import indented
from cs_transformers.checks.refresh import reference_answers
from cs_transformers.checks.runner import Runner
from cs_transformers.checks.tree import Answers


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def runner(worker: Worker) -> Runner:
    return Runner(worker=worker)


@pytest.fixture(scope="session")
def solved() -> Answers:
    return reference_answers()


class Bench:
    """Runs an exercise with some regions replaced by other bodies, everything else being the solution."""

    def __init__(self, runner: Runner, solved: Answers) -> None:
        self.runner, self.solved = runner, solved

    def answers(self, file: str, **bodies: str) -> Answers:
        regions = dict(self.solved.regions[file])
        for name, body in bodies.items():
            place = regions[name]
            regions[name] = replace(place, body=indented(body, place.indent))
        return Answers({**self.solved.regions, file: regions})

    def verdict(self, id: str, *, seconds: float = 20.0, **bodies: str) -> Verdict:
        one = replace(EXERCISES[id], seconds=seconds)
        return self.runner.verdict_on(one, self.answers(one.file, **bodies))


@pytest.fixture
def bench(runner: Runner, solved: Answers) -> Bench:
    return Bench(runner, solved)
