"""Do arguments and results stay out of spans unless wanted, and are secrets hidden in them?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.calls.audit import make_engine
from tests.calls.samples import bare
from tests.observability.telemetry import BOUND, Telemetry
from tool_engine import ToolEngine
from tool_engine.observability.opentelemetry import instrument
from tool_engine.observability.spans import CallContent, _encode_text

ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
PARAMETERS = [
    {"name": "text", "type": "string", "required": True, "description": "Any"},
    {"name": "api_key", "type": "string", "secret": True, "description": "Hidden"},
]


def content_engine() -> ToolEngine:
    engine = make_engine()

    async def echo(text: str, api_key: str | None = None) -> Any:
        if text == "fail":
            raise ValueError(f"not with {api_key}")
        return {"text": text, "used": api_key}

    engine.register_tool(bare("echo", parameters=PARAMETERS), echo)
    return engine


async def test_off(telemetry: Telemetry) -> None:
    """Nothing of what a call was given or returned is in a span by default."""
    engine = content_engine()
    with instrument(engine, telemetry.tracers) as instrumentation:
        await engine.execute("echo", {"text": "private words", "api_key": "hush-hush"})
        await instrumentation.flush()
    await engine.close()
    span = telemetry.span("execute_tool echo")
    assert "private words" not in span.to_json()
    assert "hush-hush" not in span.to_json()


async def test_on(telemetry: Telemetry) -> None:
    """With `capture_content` spans have both as JSON, with secrets hidden, and the right end."""
    engine = content_engine()
    with instrument(engine, telemetry.tracers, capture_content=True) as instrumentation:
        with telemetry.tracer.start_as_current_span("agent"):
            await engine.execute("echo", {"text": "words", "api_key": "hush-hush"})
        await instrumentation.flush()
    await engine.close()
    span, agent = telemetry.span("execute_tool echo"), telemetry.span("agent")
    attributes: Any = span.attributes
    assert json.loads(attributes[ARGUMENTS])["text"] == "words"
    assert json.loads(attributes[RESULT])["text"] == "words"
    assert "hush-hush" not in span.to_json()
    assert (span.end_time or 0) <= (agent.end_time or 0), "it ends when its call does"


async def test_failed_calls(telemetry: Telemetry) -> None:
    """A call that failed, or was never run, shows what it was given; there is no result."""
    engine = content_engine()
    with instrument(engine, telemetry.tracers, capture_content=True) as instrumentation:
        await engine.execute("echo", {"text": "fail", "api_key": "hush-hush"})
        await engine.execute("echo", {"text": 5})
        await instrumentation.flush()
    await engine.close()
    for span, given in zip(telemetry.spans(), ("fail", 5), strict=True):
        attributes: Any = span.attributes
        assert json.loads(attributes[ARGUMENTS])["text"] == given
        assert RESULT not in attributes
        assert "hush-hush" not in span.to_json()


async def test_closed_at_once(telemetry: Telemetry) -> None:
    """Closing right after a call loses no span."""
    engine = content_engine()
    with instrument(engine, telemetry.tracers, capture_content=True) as instrumentation:
        await engine.execute("echo", {"text": "words"})
    await asyncio.wait_for(instrumentation.flush(), BOUND)
    await engine.close()
    assert len(telemetry.spans("execute_tool echo")) == 1


async def test_a_failing_storage(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the record cannot be read, the span has no arguments, and a log line says so."""
    engine = content_engine()

    async def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(engine, "query_call_records", broken)
    with (
        capture_logs() as logs,
        instrument(engine, telemetry.tracers, capture_content=True) as instrumentation,
    ):
        result = await engine.execute("echo", {"text": "words"})
        await instrumentation.flush()
    await engine.close()
    attributes: Any = telemetry.span("execute_tool echo").attributes
    assert ARGUMENTS not in attributes
    assert RESULT in attributes
    (line,) = (each for each in logs if each["event"] == "arguments_not_captured")
    assert (line["call_id"], line["error"]) == (result.call_id, "OSError")


def test_without_a_loop(telemetry: Telemetry) -> None:
    """The span of a call that its loop has left behind is ended, without arguments."""
    engine = content_engine()

    async def begin() -> Any:
        call = engine.execute("echo", {"text": "words"})
        events: list[Any] = []
        engine.subscribe(events.append)
        await call
        return events[-1]

    event = asyncio.run(begin())
    span = telemetry.tracer.start_span("left")
    CallContent(engine).end(span, event, event.execution_result, 10**18)
    assert telemetry.span("left").end_time == 10**18
    asyncio.run(engine.close())


async def test_a_loop_that_ends_at_once(telemetry: Telemetry) -> None:
    """A span ends also where its loop ends, and cancels all tasks, before anything is read."""
    engine = content_engine()
    events: list[Any] = []
    engine.subscribe(events.append)
    await engine.execute("echo", {"text": "words"})
    content, others = CallContent(engine), asyncio.all_tasks()
    span = telemetry.tracer.start_span("cut")
    content.end(span, events[-1], events[-1].execution_result, 10**18)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    await content.flush()
    assert telemetry.span("cut").end_time == 10**18
    await engine.close()


async def test_flush_ignores_other_loops(telemetry: Telemetry) -> None:
    """`flush` waits for the calls of its own loop only."""
    engine = content_engine()
    content = CallContent(engine)
    loop = asyncio.new_event_loop()
    other = loop.create_task(asyncio.sleep(0))
    content._reading.add(other)
    await asyncio.wait_for(content.flush(), BOUND)
    assert not other.done()
    await asyncio.to_thread(loop.run_until_complete, other)
    assert other.done()
    loop.close()
    await engine.close()


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'),
        ({"a": Odd()}, '{"a":"<odd>"}'),
        ({"a": "\ud800"}, r"{'a': '\ud800'}"),
    ],
)
def test_text(value: Any, text: str) -> None:
    """What JSON cannot hold is shown as Python would."""
    assert _encode_text(value) == text


def test_long_text() -> None:
    """Very long contents keep their beginning, and say how long they were."""
    text = _encode_text("x" * 100_000)
    assert len(text) < 33_000
    assert text.endswith("… [100,002 characters in all]")
