"""What rows add to the statistics: every call once for its hour and once for all hours."""

from __future__ import annotations

from typing import Any

from tool_engine.knowledge.sql.schema.counting import COUNTED, STATISTICS, count_rows
from tool_engine.knowledge.sql.schema.schema import COLUMNS, EVER, HOUR


def row(key: int, at: int, seconds: float = 1.0, waited: float = 0.0, **fields: Any) -> Any:
    values = {
        "key": key,
        "finished_at": at,
        "tool_name": "a",
        "bucket": None,
        "outcome": "succeeded",
        "error_type": None,
        "execution_time": seconds,
        "time_bin": int(seconds),
        "queue_wait": waited,
        "wait_bin": int(waited),
        **fields,
    }
    return tuple(values.get(name) for name in COLUMNS)


def shown(rows: list[Any]) -> list[tuple[Any, ...]]:
    names = ("hour", "measure", "bin", "calls", "seconds", "largest", "newest")
    return [tuple(each[STATISTICS.index(name)] for name in names) for each in count_rows(rows)]


def test_nothing() -> None:
    """No calls add nothing."""
    assert count_rows([]) == []


def test_one_hour() -> None:
    """Calls of one bin are one row, with the longest time and the greatest key."""
    found = shown([row(1, 5, 1.0), row(3, 6, 1.5), row(2, 7, 1.25), row(4, 8, 2.0)])
    assert found == [
        (hour, "execution_time", *rest)
        for hour in (EVER, 0)
        for rest in ((1, 3, 3.75, 1.5, 3), (2, 1, 2.0, 2.0, 4))
    ]


def test_hours() -> None:
    """Each hour has its own rows; those for all hours have everything. Before 1970, too."""
    found = shown([row(1, -1), row(2, 0), row(3, HOUR - 1), row(4, HOUR)])
    assert [(hour, calls) for hour, _, _, calls, *_ in found] == [
        (EVER, 4),
        (-1, 1),
        (0, 2),
        (1, 1),
    ]


def test_only_those_that_waited() -> None:
    """A call that did not wait is counted with the times only."""
    found = shown([row(1, 0), row(2, 0, waited=3.5)])
    assert [each for each in found if each[1] == "queue_wait"] == [
        (hour, "queue_wait", 3, 1, 3.5, 3.5, 2) for hour in (EVER, 0)
    ]


def test_groups() -> None:
    """Tools, buckets, outcomes and error types are counted apart; none is the empty text."""
    kinds: list[dict[str, Any]] = [
        {},
        {"tool_name": "b"},
        {"bucket": "http"},
        {"outcome": "failed", "error_type": "x"},
        {"outcome": "failed"},
    ]
    rows = [row(at, 0, **fields) for at, fields in enumerate(kinds * 2)]
    found = [each[:6] for each in count_rows(rows)]
    assert len(found) == len(set(found)) == 2 * len(kinds)
    assert found == sorted(found)
    assert {each[7] for each in count_rows(rows)} == {2}
    assert (EVER, "a", "", "succeeded", "", "execution_time") in found


def test_columns() -> None:
    """Rows with only the columns that matter give the same."""
    rows = [row(number, number * HOUR // 3, number / 2, number % 2) for number in range(9)]
    few = [tuple(each[COLUMNS.index(name)] for name in COUNTED) for each in rows]
    assert count_rows(few, COUNTED) == count_rows(rows)
