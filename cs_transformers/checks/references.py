"""Stored references: for each exercise one npz with the seed, the reference's outputs and the fingerprints of mistakes.

A file holds arrays and one JSON text, nothing that needs unpickling. ``cst refresh ID`` writes it anew.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cs_transformers.files import replace_file

from .client import Answer
from .diagnosis import Fingerprint

FOLDER = Path(__file__).with_name("references")
SEED = 231  # of the checks that students see; grading draws its own


@dataclass
class Reference:
    """What is stored for an exercise.

    Args:
        seed: Seed of the inputs.
        expected: What the reference recorded.
        fingerprints: The known mistakes' outputs, condensed.
    """

    seed: int
    expected: Answer
    fingerprints: list[Fingerprint] = field(default_factory=list)


def path_of(exercise: str, folder: Path = FOLDER) -> Path:
    """The file of an exercise.

    Args:
        exercise: Its id.
        folder: Where references lie.
    """
    return folder / f"{exercise.replace('.', '_')}.npz"


def load(exercise: str, folder: Path = FOLDER) -> Reference:
    """Read an exercise's reference.

    Args:
        exercise: Its id.
        folder: Where references lie.

    Raises:
        ValueError: If the file is missing or damaged; the message says how to mend it.
    """
    path = path_of(exercise, folder)
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        text = json.loads(arrays.pop("text").tobytes())
        expected = Answer(
            "answered", arrays={key: arrays[key] for key in text["arrays"]}, kinds=text["kinds"], texts=text["texts"]
        )
        prints = [Fingerprint.from_record(record) for record in text["fingerprints"]]
        return Reference(text["seed"], expected, prints)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"reference of exercise {exercise}: expected a readable {path.name}, got "
            f"{type(error).__name__}; `cst refresh {exercise}` writes it anew in the instructor edition, "
            "a fresh copy of the course brings it back in the student edition"
        ) from None


def save(exercise: str, reference: Reference, folder: Path = FOLDER) -> Path:
    """Write an exercise's reference, whole or not at all; equal content gives equal bytes.

    Args:
        exercise: Its id.
        reference: What to store.
        folder: Where references lie.
    """
    folder.mkdir(parents=True, exist_ok=True)
    expected = reference.expected
    text = {
        "seed": reference.seed,
        "arrays": sorted(expected.arrays),
        "kinds": expected.kinds,
        "texts": expected.texts,
        "fingerprints": [fingerprint.to_record() for fingerprint in reference.fingerprints],
    }
    encoded = np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, text=encoded, **{key: expected.arrays[key] for key in sorted(expected.arrays)})
    return replace_file(path_of(exercise, folder), buffer.getvalue())
