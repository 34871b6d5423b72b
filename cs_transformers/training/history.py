"""What a training leaves behind: the loss of every step and a row of figures per evaluation."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from cs_transformers.files import replace_file


class History:
    """The course of a training: ``losses`` has one number per step, ``rows`` one dict per evaluation.

    Args:
        rows: Rows of an earlier part of the same training.
        losses: Losses of an earlier part of the same training.

    Example:
        >>> history = History(rows=[{"step": 10, "val_loss": 0.7}, {"step": 20, "val_loss": 0.5}])
        >>> history["val_loss"], history.best("val_loss")["step"]
        ([0.7, 0.5], 20)
    """

    def __init__(self, rows: list[dict[str, float]] | None = None, losses: list[float] | None = None) -> None:
        self.rows = list(rows or [])
        self.losses = list(losses or [])

    def __getitem__(self, name: str) -> list[float]:
        """Give one column, oldest first.

        Args:
            name: Column, for instance "train_loss" or "val_accuracy".

        Returns:
            The values of the rows that have it.

        Raises:
            ValueError: If no row has such a column.
        """
        if not any(name in row for row in self.rows):
            raise ValueError(f"History: expected one of the columns {self.columns}, got {name!r}; name one of them.")
        return [row[name] for row in self.rows if name in row]

    @property
    def columns(self) -> list[str]:
        """All columns in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def best(self, monitor: str) -> dict[str, float]:
        """Give the row with the best figure: the least of a loss or error, the largest of anything else.

        Args:
            monitor: Column to compare; the first of equal rows is the best.

        Returns:
            The row.

        Raises:
            ValueError: If no row has such a column.
        """
        self[monitor]
        rows = [row for row in self.rows if monitor in row]
        best = rows[0]
        for row in rows[1:]:
            if is_better(monitor, row[monitor], best[monitor]):
                best = row
        return best

    def write_csv(self, path: str | Path) -> None:
        """Write the rows as a table, atomically.

        Args:
            path: File to write.
        """
        text = io.StringIO()
        table = csv.DictWriter(text, fieldnames=self.columns, lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        replace_file(path, text.getvalue())

    @classmethod
    def read_csv(cls, path: str | Path) -> History:
        """Read the rows of a table that :meth:`write_csv` wrote.

        Args:
            path: File to read.

        Returns:
            A history without the losses of the single steps, which the table does not hold.
        """
        with open(path, encoding="utf-8", newline="") as file:
            return cls([{name: _number(text) for name, text in row.items() if text} for row in csv.DictReader(file)])

    def state_dict(self) -> dict[str, Any]:
        """Everything as plain values, for a checkpoint."""
        return {"rows": [dict(row) for row in self.rows], "losses": list(self.losses)}


def is_better(monitor: str, value: float, best: float) -> bool:
    """Say whether a figure is an improvement: less for a loss or an error, more for everything else.

    Args:
        monitor: Name of the figure; its ending decides.
        value: New figure.
        best: Figure to beat.

    Returns:
        True if ``value`` is strictly better; any number is better than none.

    Example:
        >>> is_better("val_loss", 0.2, 0.3), is_better("val_accuracy", 0.2, 0.3)
        (True, False)
    """
    if math.isnan(best):
        return not math.isnan(value)
    return value < best if monitor.endswith(("loss", "error")) else value > best


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and text.lstrip("-").isdigit() else value
