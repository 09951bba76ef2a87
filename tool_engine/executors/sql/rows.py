"""Which rows of an answer go into the result, and what does it say about the others?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tool_engine.executors.sql.sql_entry import SQLPlan
from tool_engine.executors.sql.values import json_value

_FIRST_BATCH: Final = 16
_MAX_BATCH: Final = 512


class Rows:
    """Takes the rows of one answer, up to the limits of its tool.

    Args:
        plan: The tool's limits.
        names: The columns as the database names them.
    """

    def __init__(self, plan: SQLPlan, names: Sequence[str]) -> None:
        self._plan = plan
        self._columns = _make_distinct(names)[: plan.max_columns]
        self._cut_columns = len(names) - len(self._columns)
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._note = ""
        self.count = 0
        """How many rows were given, those that did not fit included."""

    @property
    def is_full(self) -> bool:
        """Whether a row did not fit, so that no other will be taken."""
        return bool(self._note)

    @property
    def batch(self) -> int:
        """How many rows to ask for next: few while their size is unknown."""
        if not self._rows:
            return _FIRST_BATCH
        average = self._bytes // len(self._rows) + 1
        fitting = (self._plan.max_bytes - self._bytes) // average
        left = self._plan.max_rows - len(self._rows)
        return max(1, min(_MAX_BATCH, fitting, left) + 1)

    def add(self, row: Sequence[Any]) -> None:
        """Takes one row, unless the limits are reached."""
        self.count += 1
        if self._note:
            return
        if len(self._rows) == self._plan.max_rows:
            self._note = (
                f"Only the first {self._plan.max_rows} rows are here, there are more: narrow the "
                "question down, or ask for the next ones."
            )
            return
        made = dict(zip(self._columns, map(json_value, row), strict=False))
        size = len(msgspec.json.encode(made))
        if self._bytes + size > self._plan.max_bytes:
            self._note = self._too_large(size)
            return
        self._bytes += size
        self._rows.append(made)

    def result(self, row_count: int | None = None) -> dict[str, Any]:
        """The tool's output.

        Args:
            row_count: The rows that a statement wrote; None: those that are returned.
        """
        notes = [self._note] if self._note else []
        if self._cut_columns:
            notes.append(
                f"Only the first {len(self._columns)} columns are here, {self._cut_columns} more "
                "are left out."
            )
        result: dict[str, Any] = {
            "columns": self._columns,
            "rows": self._rows,
            "row_count": len(self._rows) if row_count is None else row_count,
            "is_complete": not notes,
        }
        return {**result, "note": " ".join(notes)} if notes else result

    def _too_large(self, size: int) -> str:
        limit = self._plan.max_bytes
        if self._rows:
            return (
                f"Only the first {len(self._rows)} rows are here, more would exceed {limit} "
                "bytes: narrow the question down, or ask for the next ones."
            )
        return (
            f"No row is here: the first one alone has {size} bytes, and a result may have {limit}."
        )


def _make_distinct(names: Sequence[str]) -> list[str]:
    """A second `id` becomes `id_2`, so that no column hides another."""
    taken, numbers = set(names), dict.fromkeys(names, 1)
    found: list[str] = []
    for name in names:
        chosen = name
        while numbers[name] > 1 and chosen in taken:
            chosen = f"{name}_{numbers[name]}"
            numbers[name] += 1
        numbers[name] = max(2, numbers[name])
        taken.add(chosen)
        found.append(chosen)
    return found
