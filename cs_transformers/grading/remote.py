"""The one function that a cluster is sent: it imports nothing heavy, since the scheduler loads it too.

Tasks and results travel as bytes between the machine that grades and its workers, both trusted; nothing that a
student's process made is ever in them but checked text and arrays.
"""

from __future__ import annotations

import pickle


def perform_packed(task: bytes, key: bytes, grader: str, require: bool) -> bytes:
    """Do one task in a worker.

    Args:
        task: The task, packed.
        key: The run's key.
        grader: Digest of the grader that the run was begun with.
        require: Whether this machine must isolate.

    Returns:
        The results, packed.
    """
    from .cluster import perform

    return pickle.dumps(perform(pickle.loads(task), key, grader, require))
