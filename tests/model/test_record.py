"""What is kept of a call, and how it is asked for and summed up."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tool_engine import ConfigurationError, ToolCallRecord, ToolCallSummary
from tool_engine.model.outcome import success_rate
from tool_engine.model.record import CallEntry, RecordQuery
from tool_engine.model.statistics import RecordTotals

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def record(**keys: Any) -> ToolCallRecord:
    fields: dict[str, Any] = {
        "record_id": "r",
        "tool_name": "echo",
        "params": {},
        "result": {},
        "execution_time": 0.5,
        "is_success": True,
        "error": None,
        "caller_id": "me",
        "caller_type": "direct",
        "conversation_id": "conv",
        "workflow_id": None,
        "created_at": NOW,
    }
    return ToolCallRecord(**{**fields, **keys})


def entry(serial: int) -> CallEntry:
    return CallEntry(
        "echo",
        b"",
        b"",
        0.0,
        NOW,
        0.0,
        call_id=None,
        facts=None,
        tool=None,
        serial=serial,
        priority=5,
    )


def test_record_as_json() -> None:
    """K41: a record is JSON values, times in ISO 8601; the document's fields come first."""
    shown = record().to_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert list(shown)[:12] == [
        *("record_id", "tool_name", "params", "result", "execution_time", "is_success", "error"),
        *("caller_id", "caller_type", "conversation_id", "workflow_id", "created_at"),
    ]
    assert shown["created_at"] == "2026-05-01T00:00:00+00:00"


def test_record_ids() -> None:
    """K41: each entry of a process has an id of its own that reads as a UUID."""
    first, second = entry(1).record_id, entry(2).record_id
    assert first != second
    assert [len(part) for part in first.split("-")] == [8, 4, 4, 4, 12]


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ({}, True),
        ({"tool_name": "echo", "is_success": True}, True),
        ({"tool_name": "other"}, False),
        ({"is_success": False}, False),
        ({"conversation_id": "conv", "caller_id": "me"}, True),
        ({"start": NOW}, True),
        ({"start": NOW + timedelta(seconds=1)}, False),
        ({"end": NOW}, False),
        ({"end": NOW + timedelta(seconds=1)}, True),
        ({"min_execution_time": 1e6}, False),
    ],
)
def test_query(query: dict[str, Any], matches: bool) -> None:
    """K42, U21: every field that is given must match; the start counts, the end does not."""
    assert RecordQuery(**query).matches(record()) is matches


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": -1}, "limit must be a whole number >= 0, got -1"),
        ({"limit": True}, "limit must be a whole number"),
        ({"offset": 1.5}, "offset must be a whole number"),
        ({"limit": 2**63}, "limit must be a whole number from 0 to"),
        ({"offset": 2**63}, "offset must be a whole number from 0 to"),
        ({"is_success": "yes"}, "is_success must be True or False, got 'yes'"),
        ({"is_success": 1}, "is_success must be True or False"),
        ({"oldest_first": "no"}, "oldest_first must be True or False"),
        ({"whole": None}, "whole must be True or False"),
        ({"start": NOW.replace(tzinfo=None)}, "start must be a datetime with a time zone"),
        ({"end": "today"}, "end must be a datetime with a time zone"),
        ({"start": NOW, "end": NOW - timedelta(1)}, "start must not be after end"),
        ({"min_execution_time": 0}, "min_execution_time must be a positive, finite number"),
        ({"min_execution_time": "1"}, "min_execution_time must be a positive, finite number"),
    ],
)
def test_impossible_query(query: dict[str, Any], message: str) -> None:
    """U21: a query that can mean nothing is refused, in memory and in a database alike.

    `is_success="yes"` was all calls in a database and none in memory; "no" turned the order.
    """
    with pytest.raises(ConfigurationError, match=message):
        RecordQuery(**query)


def test_conditions() -> None:
    """U21: the conditions of a query leave out times and position."""
    query = RecordQuery(tool_name="x", is_success=False, limit=3, offset=1, start=NOW, end=NOW)
    assert query.conditions == {"tool_name": "x", "is_success": False}


def test_totals() -> None:
    """K44: what records add up to, most frequent first."""
    totals = RecordTotals.of(
        [
            record(),
            record(tool_name="b", is_success=False, error_type="timeout"),
            record(tool_name="b", is_success=False),
        ],
        dropped=4,
    )
    assert (totals.total, totals.successful, totals.execution_time) == (3, 1, 1.5)
    assert list(totals.tool_usage.items()) == [("b", 2), ("echo", 1)]
    assert totals.error_types["timeout"] == 1
    assert totals.dropped == 4


def test_summary() -> None:
    """K43, K45: the summary of a conversation and its short form."""
    records = [record(), record(), record(tool_name="b", is_success=False)]
    summary = ToolCallSummary.of("conv", records)
    assert summary == ToolCallSummary("conv", 3, 2, 1, 66.67, {"echo": 2, "b": 1})
    assert summary.to_brief() == {
        "total_calls": 3,
        "success_rate": 66.67,
        "tool_usage": {"echo": 2, "b": 1},
        "has_errors": True,
    }
    assert ToolCallSummary.of("conv", []).to_brief()["has_errors"] is False


@pytest.mark.parametrize(
    ("successful", "total", "rate"), [(0, 0, 0.0), (1, 1, 100.0), (1, 3, 33.33), (0, 5, 0.0)]
)
def test_success_rate(successful: int, total: int, rate: float) -> None:
    """K19, U21: percent with two decimals, 0.0 when there was no call."""
    assert success_rate(successful, total) == rate
