"""A trace is read whole or refused with its line, and written so that it reads back the same."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tool_engine import ConfigurationError, ToolCallRecord, ToolEngine, ToolEngineConfig
from tool_engine.testing import Trace, TraceCall, TraceError, parse_trace, read_trace, write_trace

LINE: dict[str, Any] = {
    "call_id": "c1",
    "tool_name": "search",
    "bucket": "http",
    "priority": 2,
    "weight": 3,
    "key": "alice",
    "enqueued_at": 0,
    "started_at": 0.25,
    "ended_at": 1.75,
}


def record(**changes: Any) -> ToolCallRecord:
    fields: dict[str, Any] = {
        "record_id": "r",
        "tool_name": "search",
        "params": {"secret": "x"},
        "result": {},
        "execution_time": 1.5,
        "is_success": True,
        "error": None,
        "caller_id": None,
        "caller_type": "direct",
        "conversation_id": None,
        "workflow_id": None,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "call_id": "c1",
        "bucket": "http",
        "queue_wait": 0.25,
    }
    return ToolCallRecord(**{**fields, **changes})


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_every_field_of_a_line_is_read(tmp_path: Path) -> None:
    """Whole numbers are seconds too; what is left out has the usual value; order is by asking."""
    bare = {"call_id": "c0", "tool_name": "t", "enqueued_at": -1, "started_at": None, "ended_at": 0}
    trace = read_trace(write(tmp_path / "t.jsonl", LINE, "", bare))
    first, second = trace.calls
    assert (first.call_id, first.bucket, first.priority, first.weight, first.key) == (
        *("c0", None, 5, 1),
        None,
    )
    assert (first.wait, first.service) == (1.0, None)
    assert (second.bucket, second.priority, second.weight, second.key) == ("http", 2, 3, "alice")
    assert (second.wait, second.service) == (0.25, 1.5)
    assert trace.left_out == 0


def test_dates_are_times_too(tmp_path: Path) -> None:
    """ISO 8601 with a zone; a byte order mark does not matter."""
    dates = {
        "enqueued_at": "2026-01-01T00:00:00Z",
        "started_at": "2026-01-01T01:00:00.250+01:00",
        "ended_at": "2026-01-01T00:00:01.750Z",
    }
    (call,) = read_trace(write(tmp_path / "t.jsonl", "\ufeff" + json.dumps(LINE | dates))).calls
    assert (call.wait, call.service) == (0.25, 1.5)
    assert call.enqueued_at == datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def test_a_record_is_a_line(tmp_path: Path) -> None:
    """`record.to_dict()`: it ended at `created_at`, and asked before it waited and ran."""
    (call,) = read_trace(write(tmp_path / "t.jsonl", record().to_dict())).calls
    assert (call.call_id, call.bucket, call.wait, call.service) == ("c1", "http", 0.25, 1.5)
    assert (call.priority, call.weight, call.key) == (5, 1, None)
    later = record().to_dict() | {"priority": 1, "weight": 2, "key": "k"}
    (call,) = read_trace(write(tmp_path / "t.jsonl", later)).calls
    assert (call.priority, call.weight, call.key) == (1, 2, "k")


def test_records_become_calls() -> None:
    """Refused calls never ran; those that never asked for a slot are counted and left out."""
    full = {"is_success": False, "reached_executor": False, "execution_time": 0.0}
    trace = Trace.of(
        [
            record(call_id="last"),
            record(call_id="full", error_type="queue_full", **full),
            record(call_id="wrong", error_type="validation_error", **full),
            record(call_id="unknown", bucket=None, error_type="rejected", **full),
            record(call_id="first"),
        ]
    )
    assert [call.call_id for call in trace.calls] == ["first", "last", "full"]
    assert trace.calls[2].started_at is None
    assert trace.calls[2].error_type == "queue_full"
    assert trace.left_out == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "truncated"),
        ("[1]", "Expected `object`"),
        ('{"call_id": "x"}', "missing required field `tool_name`"),
        (json.dumps(LINE | {"priorty": 1}), "unknown field `priorty`"),
        (json.dumps(LINE | {"weight": 0}), "weight must be at least 1, got 0"),
        (json.dumps(LINE | {"weight": 1.5}), "Expected `int`, got `float`"),
        (json.dumps(LINE | {"started_at": 9}), "are 0, 9, 1.75"),
        (json.dumps(LINE | {"started_at": None, "ended_at": -1}), "are 0, never, -1"),
        (json.dumps(LINE | {"enqueued_at": "soon"}), "Invalid isoformat"),
        (json.dumps(LINE | {"enqueued_at": "2026-01-01T00:00:00"}), "enqueued_at names no time"),
        (json.dumps(LINE).replace("1.75", "NaN"), "malformed"),
        ('{"created_at": "2026-01-01T00:00:00", "tool_name": "t", "execution_time": 1}', "no time"),
        ('{"created_at": "2026-01-01T00:00:00Z", "tool_name": "t"}', "`execution_time`"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, part: str) -> None:
    """The error has the file, the line, what is wrong and how a line looks."""
    path = write(tmp_path / "t.jsonl", LINE, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:2: no call: ")
    assert part in str(caught.value)
    assert "write {" in str(caught.value)
    assert (caught.value.file, caught.value.line) == (str(path), 2)


@pytest.mark.parametrize("time", [math.nan, math.inf, -1.0])
def test_a_call_of_a_program_has_times_in_order(time: float) -> None:
    """As one of a file: a simulation of it would never end, or say what is wrong."""
    with pytest.raises(ConfigurationError, match=r"its times are 0, 0, (nan|inf|-1)"):
        TraceCall(call_id="c", tool_name="t", enqueued_at=0.0, started_at=0.0, ended_at=time)


def test_seconds_and_dates_do_not_mix(tmp_path: Path) -> None:
    """Between seconds from anywhere and dates nobody knows the distance."""
    with pytest.raises(TraceError, match=r":2: has dates where"):
        read_trace(write(tmp_path / "t.jsonl", LINE, record().to_dict()))


def test_no_calls_and_no_file(tmp_path: Path) -> None:
    """An empty trace, one of nothing but wrong calls, and a missing file are errors with a cure."""
    with pytest.raises(TraceError, match=r"holds no calls; record some with .*--trace"):
        read_trace(write(tmp_path / "t.jsonl", ""))
    wrong = record(reached_executor=False, error_type="validation_error").to_dict()
    with pytest.raises(TraceError, match=r"holds no calls \(1 that never asked for a slot\)"):
        parse_trace([json.dumps(wrong).encode()], "here")
    with pytest.raises(TraceError, match="nowhere: cannot be read: No such file") as caught:
        read_trace(tmp_path / "nowhere")
    assert caught.value.line is None


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    """Calls and records, in order of asking; no arguments or results get into the file."""
    path = tmp_path / "t.jsonl"
    calls = read_trace(write(path, LINE, LINE | {"call_id": "c0", "enqueued_at": -3})).calls
    assert write_trace(path, reversed(calls)) == 2
    assert read_trace(path).calls == calls
    assert write_trace(path, [record()]) == 1
    assert "secret" not in path.read_text(encoding="utf-8")
    trace = read_trace(path)
    assert trace.calls == Trace.of([record()]).calls
    assert write_trace(str(path), trace) == 1


async def test_the_records_of_an_engine_are_a_trace() -> None:
    """What `query_call_records` returns, newest first, is taken in the order of asking."""
    async with ToolEngine(ToolEngineConfig(tools_directory="tools", auto_reload=False)) as engine:
        for message in ("one", "two"):
            await engine.execute("echo", {"message": message})
        await engine.execute("echo", {"nothing": 1})
        records = await engine.query_call_records(tool_name="echo")
    trace = Trace.of(records)
    assert [call.call_id for call in trace.calls] == [records[2].call_id, records[1].call_id]
    assert trace.left_out == 1
    assert all(isinstance(call, TraceCall) and call.wait == 0.0 for call in trace.calls)
