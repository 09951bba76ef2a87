"""The picture of calls over time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

from tests.knowledge.calls import entry_of
from tool_engine.cli.records.stats_command import plot_records
from tool_engine.knowledge.entry import record_of
from tool_engine.model.call import ToolExecutionResult
from tool_engine.model.record import ToolCallRecord

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def call(ended: float, ran: float, waited: float = 0.0, **fields: Any) -> ToolCallRecord:
    result = ToolExecutionResult(
        fields.pop("is_success", True),
        "echo",
        execution_time=ran,
        executed_at=NOW + timedelta(seconds=ended),
    )
    return record_of(entry_of(result, queue_wait=waited, **fields))


def texts(picture: str) -> list[str]:
    root = ET.fromstring(picture)  # noqa: S314 - our own
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


def test_picture_says_the_largest_values() -> None:
    """Each curve names its highest value: waits, latencies, and slots at once."""
    calls = [call(10, 4, 1), call(11, 4, 2.5), call(12, 4), call(30, 1, is_success=False)]
    shown = texts(plot_records(calls, "some <calls>\x1b"))
    assert "some <calls>\ufffd" in shown
    assert "2.5 s" in shown
    assert "4 s" in shown
    assert "3" in shown
    assert "4 calls; a red stroke is one that failed" in shown


def test_picture_of_one_call_and_of_none() -> None:
    """There may be no time to show, or nothing."""
    for calls in ([], [call(0, 0)], [call(0, 0)] * 3):
        shown = texts(plot_records(calls, "x"))
        assert shown[0] == "x"
        assert any(text.startswith(f"{len(calls)} call") for text in shown), shown


def test_picture_has_a_bounded_size() -> None:
    """Twenty times the calls are no larger picture: what is too thin is joined."""
    few = plot_records([call(number, 3, 1) for number in range(500)], "x")
    many = plot_records([call(number / 20, 3, 1) for number in range(10_000)], "x")
    assert len(many) < 1.3 * len(few)


def test_calls_that_never_ran_take_no_slot() -> None:
    """A call that was refused waited, and held nothing."""
    refused = call(5, 0, 5, reached_executor=False, is_success=False)
    picture = plot_records([refused], "x")
    assert '<path class="used" d=""/>' in picture
    assert '<path class="waiting" d="M' in picture
