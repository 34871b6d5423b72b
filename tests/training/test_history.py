"""History: columns, the best row, and a table that can be read again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cs_transformers.training.history import History, is_better

ROWS = [
    {"step": 5, "val_loss": 0.7, "val_accuracy": 0.5},
    {"step": 10, "val_loss": 0.4, "val_accuracy": 0.25},
    {"step": 15, "val_loss": 0.4, "val_accuracy": 0.5, "bleu": 1e-7},
]


def test_columns_keep_their_order_and_skip_rows_without_them() -> None:
    history = History(ROWS)
    assert history.columns == ["step", "val_loss", "val_accuracy", "bleu"]
    assert history["val_loss"] == [0.7, 0.4, 0.4]
    assert history["bleu"] == [1e-7]


def test_the_best_row_is_the_first_of_equals_and_knows_the_direction() -> None:
    history = History(ROWS)
    assert history.best("val_loss")["step"] == 10
    assert history.best("val_accuracy")["step"] == 5


def test_a_figure_that_is_no_number_is_never_the_best() -> None:
    rows = [{"step": 1, "val_loss": math.nan}, {"step": 2, "val_loss": 3.0}, {"step": 3, "val_loss": math.nan}]
    assert History(rows).best("val_loss")["step"] == 2
    assert not is_better("val_loss", math.nan, math.nan)
    assert not is_better("val_loss", math.nan, 1.0)


def test_a_table_is_read_back_as_it_was(tmp_path: Path) -> None:
    History(ROWS).write_csv(tmp_path / "history.csv")
    again = History.read_csv(tmp_path / "history.csv").rows
    assert again == ROWS
    assert [type(row["step"]) for row in again] == [int] * 3
    assert (tmp_path / "history.csv").read_bytes().count(b"\n") == 4


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected one of the columns \['step'.*got 'val_los'"):
        History(ROWS)["val_los"]
    with pytest.raises(ValueError, match=r"expected one of the columns \[\], got 'val_loss'"):
        History().best("val_loss")
