"""Checkpoints: plain, atomic, and read without running anybody's code."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import torch

from cs_transformers.training.checkpoints import (
    load_checkpoint,
    own_rng,
    rng_state,
    save_checkpoint,
    set_rng_state,
)


def test_numpy_values_are_stored_as_plain_ones_and_load_with_torchs_default(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    losses = [np.float32(0.5), np.array(0.25)]
    save_checkpoint(path, {"losses": losses, "count": np.int64(3), "flag": np.bool_(True), "rest": (None, "text", 1.5)})
    state = torch.load(path, weights_only=True)
    assert state["losses"][0] == 0.5
    assert type(state["losses"][0]) is float
    assert torch.equal(state["losses"][1], torch.tensor(0.25, dtype=torch.float64))
    assert type(state["count"]) is int
    assert state["flag"] is True
    assert state["rest"] == (None, "text", 1.5)


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"model": {"head": object()}}, r"got object at state\['model'\]\['head'\]"),
        ({"rows": [1, {2}]}, r"got set at state\['rows'\]\[1\]"),
        ({"names": np.array(["a"])}, r"got ndarray at state\['names'\]"),
    ],
)
def test_other_objects_are_refused_with_their_place_and_nothing_is_written(tmp_path: Path, state, where: str) -> None:
    with pytest.raises(TypeError, match=where):
        save_checkpoint(tmp_path / "last.pt", state)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"step": 1})

    def half(_: dict, file: BinaryIO) -> None:
        file.write(b"half")
        raise RuntimeError("disk full")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(RuntimeError, match="disk full"):
        save_checkpoint(path, {"step": 2})
    assert load_checkpoint(path) == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["last.pt"]


def test_the_file_has_the_mode_of_an_ordinary_new_file(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "last.pt", {"step": 1})
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "last.pt").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_missing_folders_are_made(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a" / "b" / "last.pt", {"step": 2})
    assert load_checkpoint(tmp_path / "a" / "b" / "last.pt")["step"] == 2


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pt, found none; train first"):
        load_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize("damage", ["empty", "half", "code"])
def test_a_damaged_or_hostile_file_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint(path, {"weights": torch.ones(500)})
    content = {"empty": b"", "half": path.read_bytes()[:700], "code": _pickled_call()}[damage]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"last\.pt, but it cannot be read .*delete it and train again"):
        load_checkpoint(path)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    torch.save({"step": 1}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"expected format 1 in .*got None"):
        load_checkpoint(tmp_path / "other.pt")


def test_random_streams_come_back_after_a_trip_through_a_file(tmp_path: Path) -> None:
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    random.gauss(0, 1), np.random.randn(), torch.rand(5)
    save_checkpoint(tmp_path / "rng.pt", rng_state())
    drawn = [(random.random(), random.gauss(0, 1), np.random.randn(), torch.rand(1).item()) for _ in range(3)]
    set_rng_state(load_checkpoint(tmp_path / "rng.pt"))
    assert drawn == [(random.random(), random.gauss(0, 1), np.random.randn(), torch.rand(1).item()) for _ in range(3)]


def test_lent_streams_leave_no_trace_even_after_an_error() -> None:
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    drawn = []

    def draw_and_fail() -> None:
        with own_rng(seed=5):
            drawn.append((torch.rand(1).item(), random.random(), np.random.rand()))
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            draw_and_fail()
    assert drawn[0] == drawn[1]
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert np.array_equal(before[2], np.random.get_state()[1])


def _pickled_call() -> bytes:
    class Call:
        def __reduce__(self):
            return print, ("code of a stranger",)

    file = io.BytesIO()
    torch.save({"weights": Call()}, file)
    return file.getvalue()
