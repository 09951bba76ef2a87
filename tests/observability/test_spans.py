"""Is every call one span, in the right trace, with the attributes of the conventions?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from tests.calls.audit import make_engine, turns
from tests.calls.samples import bare
from tests.observability.telemetry import (
    BOUND,
    Telemetry,
    current_id,
    id_of,
    parent_of,
    sample_engine,
    seconds_of,
    traceparent_of,
)
from tool_engine import ToolEngine, ToolExecutionContext, ToolExecutionError
from tool_engine.model.trace import trace_headers
from tool_engine.observability.opentelemetry import instrument


async def test_attributes(telemetry: Telemetry) -> None:
    """A call is one INTERNAL span, named and described by the GenAI conventions."""
    engine, _ = sample_engine()
    context = ToolExecutionContext.for_conversation("agent-1", "conv-1")
    with instrument(engine, telemetry.tracers, telemetry.meters):
        result = await engine.execute("plain", {}, context)
    await engine.close()
    span = telemetry.span("execute_tool plain")
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "tool_engine"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "plain",
        "gen_ai.tool.call.id": result.call_id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "A sample",
        "gen_ai.conversation.id": "conv-1",
        "tool_engine.tool.version": "1.0.0",
        "tool_engine.bucket": "custom",
        "tool_engine.caller.id": "agent-1",
        "tool_engine.caller.type": "conversation_agent",
        "tool_engine.outcome": "succeeded",
        "tool_engine.attempts": 1,
        "tool_engine.queue_wait": 0.0,
        "tool_engine.execution_time": result.execution_time,
        "tool_engine.generation": result.metadata["generation"],
    }


@pytest.mark.parametrize(
    ("category", "kind"), [("http", "extension"), ("database", "datastore"), ("file", "function")]
)
async def test_tool_type(category: str, kind: str, telemetry: Telemetry) -> None:
    """`gen_ai.tool.type` follows from what the tool works on."""
    engine = make_engine()

    async def handler() -> None: ...

    engine.register_tool(bare("typed", category=category), handler)
    with instrument(engine, telemetry.tracers):
        await engine.execute("typed")
    await engine.close()
    assert (telemetry.span("execute_tool typed").attributes or {})["gen_ai.tool.type"] == kind


async def test_parents(telemetry: Telemetry) -> None:
    """The caller's span is the parent of the call's, and that of the calls which its tool makes."""
    engine, samples = sample_engine()
    with instrument(engine, telemetry.tracers), telemetry.tracer.start_as_current_span("agent"):
        before = current_id()
        await engine.execute("outer")
        assert current_id() == before, "the call left its span behind in its caller"
    await engine.close()
    agent, outer = telemetry.span("agent"), telemetry.span("execute_tool outer")
    inner = telemetry.span("execute_tool plain")
    assert (parent_of(outer), parent_of(inner)) == (id_of(agent), id_of(outer))
    assert samples.seen == {"outer": id_of(outer), "plain": id_of(inner)}
    assert inner.attributes is not None
    assert inner.attributes["tool_engine.parent_call.id"] == outer.attributes["gen_ai.tool.call.id"]  # type: ignore[index]


async def test_in_a_thread(telemetry: Telemetry) -> None:
    """A plain function sees the span of its call in its thread."""
    engine, samples = sample_engine()
    with instrument(engine, telemetry.tracers):
        await engine.execute("in_thread")
    await engine.close()
    assert samples.seen["in_thread"] == id_of(telemetry.span("execute_tool in_thread"))


async def test_without_a_caller_span(telemetry: Telemetry) -> None:
    """A call that nobody traces begins a trace, which its wait is a part of."""
    engine, samples = sample_engine(max_concurrent=1)
    with instrument(engine, telemetry.tracers):
        calls = [asyncio.create_task(engine.execute("waits")) for _ in range(2)]
        await turns(10)
        samples.gate.set()
        await asyncio.wait_for(asyncio.gather(*calls), BOUND)
    await engine.close()
    first, second = telemetry.spans("execute_tool waits")
    wait = telemetry.span("queue waits")
    assert (parent_of(first), parent_of(second)) == (None, None)
    assert parent_of(wait) == id_of(second)
    assert first.context.trace_id != second.context.trace_id == wait.context.trace_id


async def test_a_wait_has_its_caller(telemetry: Telemetry) -> None:
    """A call that waits keeps the context of its own caller; its span covers the wait."""
    engine, samples = sample_engine(max_concurrent=1)

    async def agent(name: str) -> int:
        with telemetry.tracer.start_as_current_span(name):
            await engine.execute("waits")
            return current_id()

    with instrument(engine, telemetry.tracers, telemetry.meters):
        tasks = [asyncio.create_task(agent(name)) for name in ("one", "two", "three")]
        await turns(20)
        samples.gate.set()
        ids = await asyncio.wait_for(asyncio.gather(*tasks), BOUND)
    await engine.close()
    agents = [telemetry.span(name) for name in ("one", "two", "three")]
    assert ids == [id_of(span) for span in agents]
    calls = telemetry.spans("execute_tool waits")
    assert [parent_of(call) for call in calls] == ids
    for wait, call in zip(telemetry.spans("queue waits"), calls[1:], strict=True):
        assert parent_of(wait) == id_of(call)
        assert wait.start_time is not None
        assert (call.start_time or 0) <= wait.start_time <= (wait.end_time or 0)
        assert (wait.end_time or 0) <= (call.end_time or 0)


async def _execute(engine: ToolEngine, name: str, params: Any = None) -> Any:
    async with asyncio.timeout(BOUND):
        return await engine.execute(name, params or {})


@pytest.mark.parametrize(
    ("name", "params", "error_type"),
    [
        ("fails", {}, "execution_error"),
        ("nothing_of_this_name", {}, "tool_not_found"),
        ("typed", {"number": "x"}, "validation_error"),
    ],
)
async def test_errors(name: str, params: Any, error_type: str, telemetry: Telemetry) -> None:
    """A call that fails has the status ERROR, `error.type`, and its message as description."""
    engine, _ = sample_engine()
    number = {"name": "number", "type": "integer", "required": True, "description": "One"}

    async def typed(number: int) -> int:
        return number

    engine.register_tool(bare("typed", parameters=[number]), typed)
    with instrument(engine, telemetry.tracers), telemetry.tracer.start_as_current_span("agent"):
        result = await _execute(engine, name, params)
        await engine.execute("plain")
    await engine.close()
    (span, _, agent) = telemetry.spans()
    assert result.error_type == error_type
    assert span.attributes is not None
    assert span.attributes["error.type"] == error_type
    assert span.attributes["gen_ai.tool.name"] == name
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == result.error
    assert parent_of(span) == id_of(agent)


async def test_an_invented_name(telemetry: Telemetry) -> None:
    """What a model calls a tool does not become a name of spans, and is bounded."""
    engine, _ = sample_engine()
    with instrument(engine, telemetry.tracers):
        await engine.execute("x" * 100_000)
    await engine.close()
    (span,) = telemetry.spans()
    assert span.name == "execute_tool"
    assert len(str((span.attributes or {})["gen_ai.tool.name"])) <= 1_000


async def test_a_refused_call(telemetry: Telemetry) -> None:
    """A call whose wait ends without a slot: wait and call end as errors, at one moment."""
    engine, samples = sample_engine(max_concurrent=1, queue_timeout=0.01)
    with instrument(engine, telemetry.tracers):
        running = asyncio.create_task(engine.execute("waits"))
        await turns(5)
        result = await _execute(engine, "plain")
        samples.gate.set()
        await asyncio.wait_for(running, BOUND)
    await engine.close()
    wait, call = telemetry.span("queue plain"), telemetry.span("execute_tool plain")
    assert result.error_type == "queue_timeout"
    for span in (wait, call):
        assert (span.attributes or {})["error.type"] == "queue_timeout"
        assert span.status.status_code is StatusCode.ERROR
    assert wait.end_time == call.end_time


async def test_cancelled(telemetry: Telemetry) -> None:
    """A call that is cancelled has its span ended, and its caller its context back."""
    engine, _ = sample_engine()

    async def agent() -> tuple[int, int]:
        with telemetry.tracer.start_as_current_span("agent"):
            before = current_id()
            try:
                await engine.execute("waits")
            except asyncio.CancelledError:
                return before, current_id()
        return 0, 0

    with instrument(engine, telemetry.tracers):
        task = asyncio.create_task(agent())
        await turns(5)
        task.cancel()
        before, after = await asyncio.wait_for(task, BOUND)
    await engine.close()
    assert before == after != 0
    span = telemetry.span("execute_tool waits")
    assert (span.attributes or {})["error.type"] == "cancelled"


async def test_retries(telemetry: Telemetry) -> None:
    """Each attempt that was followed by another is an event of the span, in order, inside it."""
    engine, samples = sample_engine()
    samples.failures = 2
    with instrument(engine, telemetry.tracers):
        result = await _execute(engine, "flaky")
    await engine.close()
    span = telemetry.span("execute_tool flaky")
    assert result.metadata["attempts"] == 3
    assert [event.name for event in span.events] == ["tool_engine.retry"] * 2
    attributes = [dict(event.attributes or {}) for event in span.events]
    delays = [each.pop("tool_engine.delay") for each in attributes]
    assert all(isinstance(delay, float) and delay >= 0.001 for delay in delays)
    assert attributes == [
        {
            "tool_engine.attempt": number,
            "tool_engine.execution_time": log["execution_time"],
            "error.type": "execution_error",
        }
        for number, log in enumerate(result.metadata["attempt_log"][:-1], start=1)
    ]
    times = [span.start_time, *(event.timestamp for event in span.events), span.end_time]
    assert times == sorted(times)  # type: ignore[type-var]


async def test_a_retried_span_stays_current(telemetry: Telemetry) -> None:
    """Every attempt of a call sees the same span."""
    engine = make_engine()
    seen: list[int] = []

    async def again() -> None:
        seen.append(current_id())
        if len(seen) < 3:
            raise ToolExecutionError("again")

    retry = {"attempts": 3, "backoff": 0.001, "on": ["execution_error"]}
    engine.register_tool(bare("again", effect="read", retry=retry), again)
    with instrument(engine, telemetry.tracers):
        await _execute(engine, "again")
    await engine.close()
    assert seen == [id_of(telemetry.span("execute_tool again"))] * 3


async def test_a_call_under_way(telemetry: Telemetry) -> None:
    """A call that had begun before anybody traced it is told of as a whole when it ends."""
    engine, samples = sample_engine()
    running = asyncio.create_task(engine.execute("waits"))
    await turns(5)
    with instrument(engine, telemetry.tracers, telemetry.meters):
        samples.gate.set()
        result = await asyncio.wait_for(running, BOUND)
    await engine.close()
    span = telemetry.span("execute_tool waits")
    assert seconds_of(span) == pytest.approx(result.execution_time, abs=1e-3)
    assert set(telemetry.values("tool_engine.calls.running").values()) <= {0}


async def test_closed_from_elsewhere(telemetry: Telemetry) -> None:
    """A call that is thrown away in another context ends its span, and changes no other context."""
    engine, _ = sample_engine()
    with instrument(engine, telemetry.tracers):
        call = engine.execute("waits")

        async def begin() -> None:
            with telemetry.tracer.start_as_current_span("agent"):
                call.send(None)

        await asyncio.create_task(begin())
        with telemetry.tracer.start_as_current_span("elsewhere"):
            before = current_id()
            call.close()
            assert current_id() == before
    await engine.close()
    assert len(telemetry.spans("execute_tool waits")) == 1


async def test_unsampled(telemetry: Telemetry) -> None:
    """Where a sampler says no, nothing is exported, and calls run as always."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    engine, samples = sample_engine()
    with instrument(engine, TracerProvider(sampler=ALWAYS_OFF), capture_content=True):
        result = await _execute(engine, "plain")
    await engine.close()
    assert result.is_success
    assert samples.seen["plain"] != 0, "the trace goes on, though nobody keeps it"


async def test_headers_in_the_tool(telemetry: Telemetry) -> None:
    """A tool finds the headers of its own span; outside of calls there are none."""
    engine = make_engine()
    found: list[dict[str, str]] = []

    async def asks() -> None:
        found.append(trace_headers())
        found.append(trace_headers("api.example.com"))

    engine.register_tool(bare("asks"), asks)
    with instrument(engine, telemetry.tracers):
        await engine.execute("asks")
        with telemetry.tracer.start_as_current_span("agent"):
            assert trace_headers() == {}, "the call left its carrier behind in its caller"
    await engine.close()
    span: ReadableSpan = telemetry.span("execute_tool asks")
    assert found == [
        {"traceparent": traceparent_of(span)},
        {},
    ]
